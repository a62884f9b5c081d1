std = "lua54+busted"
max_line_length = 120
globals = { "kit", "emu" }
exclude_files = { "build" }
