std = "lua54+busted"
max_line_length = 140
globals = { "kit", "emu" }
exclude_files = { "build" }
