-- Where our disassembly deliberately differs from objdump 2.40's: matches(raw, length, theirs, ours) and why.
return {
}
