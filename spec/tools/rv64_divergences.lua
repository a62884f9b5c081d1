-- Where our disassembly deliberately differs from objdump 2.40's. Each: why, an example (encoding, objdump's
-- text, ours), and matches(raw, length, theirs, ours).
--
-- "Unprivileged ISA" is version 20191213. qemu-user 7.2 executes all of the encodings below as we do, which
-- the exec sweep shows.

local function mnemonic(text) return text:match("^[%w.]+") end

local PRIVILEGED = {}
for name in ("uret sret mret dret wfi sfence.vma hret sfence.vm"):gmatch("%S+") do PRIVILEGED[name] = true end

return {
  {
    reason = "fence.i: its unused fields are reserved and to be ignored (unprivileged ISA, chapter 3)",
    example = {"b53c1f0f", ".4byte\t0xb53c1f0f", "fence.i"},
    matches = function(raw, _, theirs, ours)
      return raw & 0x707f == 0x100f and mnemonic(theirs) == ".4byte" and ours == "fence.i"
    end,
  },
  {
    reason = "fence: reserved fm, rs1 and rd are to be treated as a normal fence (unprivileged ISA, section 2.7)",
    example = {"4f63048f", ".4byte\t0x4f63048f", "fence\tiorw,or"},
    matches = function(raw, _, theirs, ours)
      return raw & 0x707f == 0xf and mnemonic(theirs) == ".4byte" and ours:find("^fence") ~= nil
    end,
  },
  {
    reason = "fcvt.d.s/w/wu: exact, so that objdump knows rm 0 only; any valid rm executes",
    example = {"420f2b53", ".4byte\t0x420f2b53", "fcvt.d.s\tfs6,ft10"},
    matches = function(_, _, theirs, ours)
      local name = mnemonic(ours)
      return mnemonic(theirs) == ".4byte" and (name == "fcvt.d.s" or name == "fcvt.d.w" or name == "fcvt.d.wu")
    end,
  },
  {
    reason = "rounding modes 5 and 6 are reserved: illegal here (and in qemu), 'unknown' in objdump",
    example = {"399de4cb", "fnmsub.s\tfs1,fs11,fs9,ft7,unknown", ".4byte\t0x399de4cb"},
    matches = function(raw, _, theirs, ours)
      local rm = raw >> 12 & 7
      return (rm == 5 or rm == 6) and theirs:find(",unknown$") and mnemonic(ours) == ".4byte"
    end,
  },
  {
    reason = "c.addi16sp with immediate 0 is reserved (unprivileged ISA, 16.5)",
    example = {"6101", "add\tsp,sp,0", ".2byte\t0x6101"},
    matches = function(raw, length) return length == 2 and raw == 0x6101 end,
  },
  {
    reason = "privileged instructions are illegal in user mode",
    example = {"00200073", "uret", ".4byte\t0x200073"},
    matches = function(_, _, theirs, ours) return PRIVILEGED[mnemonic(theirs)] and mnemonic(ours) == ".4byte" end,
  },
  {
    reason = "names of control and status registers that user mode cannot access",
    example = {"342228f3", "csrrs\ta7,mcause,tp", "csrrs\ta7,0x342,tp"},
    matches = function(raw, _, theirs, ours)
      local number = ("0x%x"):format(raw >> 20)
      return raw & 0x7f == 0x73 and theirs:gsub("%f[%w_]%l[%w_]*", number, 2) ~= theirs
        and mnemonic(theirs) == mnemonic(ours) and ours:find(number, 1, true)
    end,
  },
}
