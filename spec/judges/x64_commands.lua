-- Debian's own programs, as x64_debian_spec.lua runs them: natively and under kitlua, each in a copy of the folder M.folder makes.
-- One row a run:
--   [1]        the words of the command, separated by spaces; or a list of words
--   stdin      its input, a file of the folder       env  more of the environment
--   children   a script: what it executes runs under kitlua too (--trace-children)
--   filter     patterns of the output that differ from run to run; they count as "~"
--   err        true: stderr is compared as well
--   keep       a pattern: only what it matches counts of stderr, and nothing of stdout
--   leaves     false: files that it leaves are not compared
--   heavy      too much to call Lua at every instruction: its null tool is observe.lua's "fast"; all others are under every hook
--   timeout    seconds (default 120)
-- Fields of a group are those of all its rows. minimal: a Debian without further packages has them; `make test` takes these.
-- luacheck: no max line length
local M = {}

-- Texts, numbers, bytes, a tree; with the same times in every copy.
M.folder = [[
cat >words <<'E'
the quick brown fox
jumps over the lazy dog
The rain in Spain	stays mainly
in the plain  -- twice   spaced
aaa bbb ccc
zebra	apple	mango
fox fox dog
E
seq 300 -7 1 >nums
awk 'BEGIN { for (i = 0; i < 4000; i++) { x = (x * 3877 + 29573) % 139968; printf "%d %s line %d of text\n", x % 997, substr("kitluakitlua", i % 7 + 1, 5), i } }' >text
sort words >sorted
sort -r words | head -n 4 | sort >half
printf 'a b\nb c\nc d\n' >pairs
printf 'k1 x\nk2 y\nk3 z\n' >left
printf 'k1 1\nk3 3\n' >right
printf "$(awk 'BEGIN { for (i = 0; i < 256; i++) printf "\\%03o", i }')" >bytes
mkdir -p tree/sub/deep tree/empty
cp words tree/w; cp nums tree/sub/n; cp bytes tree/sub/deep/b; ln -s ../w tree/sub/link
chmod 751 tree/sub; chmod 600 tree/w
find . -exec touch -h -d '2020-01-02 03:04:05Z' {} +
]]

local rows = {}

local function words_of(text)
  local words = {}
  for word in text:gmatch("%S+") do words[#words + 1] = word end
  return words
end

local function add(group, list)
  for _, row in ipairs(list) do
    if type(row) == "string" then row = {row} end
    for name, value in pairs(list) do
      if type(name) == "string" and row[name] == nil then row[name] = value end
    end
    row.group = group
    row.words = type(row[1]) == "string" and words_of(row[1]) or row[1]
    row.title = group .. ": " .. table.concat(row.words, " "):gsub("%s+", " "):sub(1, 90)
    rows[#rows + 1] = row
  end
end

-- A run of `shell -c TEXT`.
local function shell(name, text, more)
  local row = more or {}
  row[1] = {name, "-c", text}
  return row
end

-- ---- what every Debian has -----------------------------------------------------------------------------------------

add("coreutils", {minimal = true,
  "arch", "b2sum text", "base32 bytes", "base64 bytes", "base64 -w0 text", "basename a/b.c .c", "basenc --z85 -d nosuch", "basenc --base2msbf bytes",
  "cat -A bytes", "cat words nums", "chcon nosuch words", "chgrp 0 words", "chmod -v u+x,go-r words tree/w", "chown -v 0:0 words", "chroot / /bin/true",
  "cksum text bytes", "cksum -a sm3 text", "comm sorted half", "cp -av tree copy", "cp --sparse=always bytes b2", "csplit -z text /line.7/ {3}",
  "cut -f2,4 words", "cut -b1-3,7- words", "date -u -d 2001-02-03T04:05:06 +%c|%s|%j", "date -d @86400 -R",
  "dd if=text of=out bs=77 count=13 conv=ucase status=none", "df --output=target /", "dir -a tree", "dircolors -p", "dirname /a/b/c", "du -ab tree",
  "echo -e a\\tb\\x41", "env -i A=1 B=2 env", "expand -t3 words", "expr 17 * 3 + 100 / 7", "expr length abcdef", "expr abc : x",
  "factor 123456789012345678 18446744073709551615 97", "factor 3402823669209384634633 18446744073709551616", "false", "fmt -w30 words", "fold -sw13 words",
  "groups", "head -n3 text", "head -c-100 words", "hostid", "id", "id -un", "install -m640 -D words new/dir/w", "join left right",
  "join -a1 -e- -o0,2.2 left right", "link words hard", "ln -sv words soft", "ln words hard", "logname", "ls -la --time-style=+%F tree/sub", "ls -R tree",
  "ls -lS --full-time words nums text", {"ls nosuch", err = true}, "md5sum text bytes", "mkdir -pv p/q/r", "mkfifo f", "mknod m p",
  {"mktemp -u", filter = {"%w+\n"}}, "mv -v words moved", "nice -n5 nice", "nl -ba words", "nohup echo hi", "nproc", "numfmt --to=iec 1234567 99 1048576",
  "od -Ax -tx2 -tc bytes", "od -tf8 -N64 bytes", "od -tfL -N160 text", "paste -d, words nums", "paste -s nums", "pathchk -p words", "pinky -l root",
  "pr -l20 -h head words", "printenv LANG", "printf %s|%5d|%-6x|%.3e\\n a 42 255 3.14159", "printf %.30Lf\\n 0.1", "ptx words", "pwd", "readlink -f tree/sub/link",
  "realpath tree/../words", "rm -rv tree", {"rm nosuch", err = true}, "rmdir tree/empty", "runcon x y", "seq -w 1 7 100", "seq -f%.3g 0 .1 1", "seq 1e3",
  "sha1sum text", "sha224sum text", "sha256sum text bytes", "sha384sum text", "sha512sum text", "sha256sum -c nosuch",
  "shred -n1 --random-source=text -z words", "shuf --random-source=text words", "sleep 0.05", "sort text", "sort -n nums", "sort -k2,2 -k1,1nr --parallel=2 text",
  "sort -ru words", "sort -R --random-source=text words", "split -l1000 text part.", "split -n3 bytes x", "stat -c%n|%s|%A|%Y words tree", "stdbuf -o0 cat words",
  {"stty -a", err = true}, "sum text", "sum -s text", "sync words", "tac words", "tail -n2 text", "tail -c+9000 text", {"tee copy", stdin = "words"},
  "test 3 -lt 4", "test a = b", "[ -d tree ]", "timeout 5 true", "timeout 0.1 sleep 5", "touch -d 2001-01-01 new words", {"tr a-z A-Z", stdin = "words"},
  {"tr -dc a-z\\n", stdin = "text"}, {"tr -s [:space:]", stdin = "words"}, "true", "truncate -s9 words", "tsort pairs", "tty", "uname -srm", "unexpand -a words",
  "uniq -c sorted", "unlink words", "users", "vdir --time-style=+%s tree/sub", "wc text words bytes", "wc -L text", "who", "whoami",
  shell("sh", "yes | head -n3", {children = true}),
})

add("bash", {minimal = true, children = true,
  shell("bash", "for ((i = 0; i < 300; i++)); do (( s += i * i )); a[i]=$s; done; echo $s ${#a[@]} ${a[@]: -3}; exit 7"),
  shell("bash", [[declare -A m; while read -r a b c; do m[$a]=$b; done <words; for k in $(printf '%s\n' "${!m[@]}" | sort); do echo "$k=${m[$k]}"; done]]),
  shell("bash", [[x=abcABC; echo ${x^^} ${x,,} ${x/b/__} ${x:1:3} ${#x} $((0x1f ** 3)) $'\x41\u00e9'; printf -v y %08.3f 3.14159; echo $y
[[ foo123 =~ ([a-z]+)([0-9]+) ]].."]]"..[[ && echo ${BASH_REMATCH[2]}]]),
  shell("bash", "sort text | uniq -c | sort -rn | head -n5; wc -l < <(cat words nums); diff <(sort words) sorted && echo same"),
  shell("bash", "trap 'echo usr1' USR1; trap 'echo bye' EXIT; kill -USR1 $$; (exit 3); echo $?; sleep 0.1 & wait $!; echo $?; kill -TERM $BASHPID"),
  shell("bash", "coproc cat; echo hi >&${COPROC[1]}; read -u ${COPROC[0]} x; echo $x; exec {COPROC[1]}>&-; wait; set -o pipefail; false | cat; echo $?; cd tree && ls"),
  shell("bash", "shopt -s globstar; echo tree/**; echo {a,b}{1..3}; mapfile -t l <nums; echo ${#l[@]}; f() { local n=$1; (( n < 2 )) && echo $n || echo $(( $(f $((n-1))) + $(f $((n-2))) )); }; f 6"),
})
add("dash", {minimal = true, children = true,
  shell("dash", "i=0; while [ $i -lt 300 ]; do i=$((i + 1)); done; echo $i; exit 5"),
  shell("dash", "trap 'echo got' USR1; kill -USR1 $$; for i in 1 2 3; do (sleep 0.0$i; exit $i) & done; wait; (exit 4) & wait $!; echo $?; kill -9 $$"),
  shell("dash", "cat <<E | sed s/o/0/g | cut -d' ' -f2\nfoo boo\nzoo moo\nE\nseq 1 100000 | head -n 1; nosuch; echo $?; x=$(cat words | wc -l); echo $x"),
})
add("grep", {minimal = true, "grep -n fox words", "grep -c line text", "grep -E -o [0-9]+$ nums", "grep nosuch words", "grep -rc fox tree",
  "grep -P (\\w)\\1{2} words", "grep -vwi the words", "grep -F -f half words", "grep -a -b a bytes"})
add("sed", {minimal = true, "sed s/\\(.*\\)line/<\\1>/;3q text", "sed -n /fox/{=;p} words", "sed -E s/([a-z]+)/<\\u\\1>/g words", "sed -i.bak 1!G;h;$!d words",
  "sed y/abc/xyz/ words", "sed -s $!N;P;D nums words", {{"sed", "1~3d;w out", "nums"}}})
add("find", {minimal = true, "find tree -name [wn] -printf %p|%s|%m|%y\\n", "find tree -newermt 2019-01-01 -type l -lname *w -print0", "find tree -depth -delete",
  {"find tree -type f -exec md5sum {} ;", children = true}, {"xargs -n3 echo", stdin = "words", children = true},
  shell("sh", "find tree -type f -print0 | xargs -0 -P2 -n1 md5sum | sort", {children = true})})
add("tar", {minimal = true, "tar cvf out.tar --sort=name tree/sub/deep", {"tar czf out.tgz --sort=name words", children = true},
  shell("sh", "tar cf - --sort=name tree/sub/deep | tar tvf - ; tar cf - tree | (mkdir x; cd x; tar xpf -)", {children = true})})
add("gzip", {minimal = true, "gzip -nk text", "gzip -n9c text", {"gzip -d words", err = true},
  shell("sh", "gzip -n1 <text >z && gzip -dc z | cmp - text && wc -c z", {children = true})})
add("perl", {minimal = true, heavy = true, {{"perl", "-ne", "print scalar reverse if /(\\w)\\1/", "words"}},
  {{"perl", "-e", [[my %h; open F, "<", "text"; while (<F>) { my @w = split; $h{$w[1]} += $w[0]; } printf "%s %d\n", $_, $h{$_} for sort keys %h;
    print join(",", map { sprintf "%.10g", sqrt $_ } 1..10), "\n"; exit 3]]}},
  {{"perl", "-e", [[$| = 1; $SIG{ALRM} = sub { print "alarm\n"; exit 0 }; my $pid = fork; if (!$pid) { print "child\n"; exit 2 }
    waitpid $pid, 0; print $? >> 8, "\n"; alarm 1; 1 while 1]]}},
  {{"perl", "-e", [[my $s = ""; $s .= chr($_ % 26 + 97) x ($_ % 5) for 1 .. 3000; my $n = 0; $n++ while $s =~ /(.)\1(?!\1)/g; print "$n\n";
    print eval { die {code => 5} } || $@->{code}, "\n"; print unpack("H*", pack("w/a N d>", "abc", 7, 2.5)), "\n"; print `echo sub`]]}, children = true},
})
add("others", {minimal = true, "cmp text text", "cmp -l words sorted", {"diff -u words sorted", filter = {"\t20[^\n]*"}}, "diff -rq tree .", "getopt -o ab: -- -a -b x y",
  "mawk {s+=$1}END{print(s)} nums", "getent passwd root", "hostname", shell("sh", "ldd /bin/ls | grep -v vdso", {children = true, filter = {"0x%x+"}}), -- no vdso: system calls are counted and seen
  "setsid -w echo x", "which ls", "dpkg --version",
  "run-parts --list /etc/cron.daily", "lscpu --version", "date --version", "mount --version"})

-- ---- what `make verify` installs -----------------------------------------------------------------------------------

add("awk", {{{"gawk", "{ n[length($2)]++; s += $1 } END { PROCINFO[\"sorted_in\"] = \"@ind_num_asc\"; for (i in n) print i, n[i]; printf \"%d %.6f\\n\", s, exp(1) * sin(s) }", "text"}},
  {{"mawk", "{ n[$2]++ } END { for (i in n) print i, n[i] | \"sort\" }", "text"}, children = true},
  {{"gawk", "-M", [[BEGIN { print 2 ^ 200 % 1000007; print gensub(/(o+)/, "<\\1>", "g", "foo boo"); print toupper("x"), substr("hello", 2, 3), index("abc", "c") }]]}}})
add("compressors", {heavy = true, "bzip2 -k text", "bzip2 -1c text", "xz -T2 -k text", "xz -9ec text", "zstd -T2 -q -k text", "zstd -19 -c text",
  "zstd -q --ultra -22 -T2 -k bytes", {"xz -t words", err = true}, "bzip2 -t words", {"tar cJf out.txz --sort=name words", children = true},
  {"tar --zstd -cf out.tzst --sort=name words", children = true},
  shell("bash", "for c in bzip2 'xz -T2' 'xz -T2 --block-size=16384' 'zstd -qT2' 'gzip -n'; do $c -c <text >z; wc -c <z; ${c%% *} -dc <z | cmp - text || echo differs; done", {children = true}),
})

-- Python's own tests: how many, and that they pass.
for _, test in ipairs {"json", "re", "threading", "subprocess", "signal"} do
  add("python3 unit tests", {heavy = true, timeout = 1800, {"python3 -m unittest test.test_" .. test, err = true, keep = "\nRan %d+ tests.*$", filter = {" in %d+%.%d+s"}}})
end
local function python(text, more)
  local row = more or {}
  row[1] = {"python3", "-c", text}
  return row
end
add("python3", {heavy = true,
  python("import collections, hashlib, json, re, math\nc = collections.Counter(re.findall('[a-z]+', open('text').read()))\nprint(json.dumps(c, sort_keys=True))\n"
    .. "print(hashlib.sha256(open('bytes', 'rb').read()).hexdigest(), math.fsum(math.sin(i) for i in range(1000)), 3**200 % 1000003)"),
  python("import threading, queue\nq = queue.Queue(); out = []\ndef w():\n  while True:\n    i = q.get()\n    if i is None: return\n    out.append(i * i)\n"
    .. "ts = [threading.Thread(target=w) for _ in range(8)]\n[t.start() for t in ts]\n[q.put(i) for i in range(2000)]\n[q.put(None) for _ in ts]\n"
    .. "[t.join() for t in ts]\nprint(sum(out), len(out))"),
  python("import multiprocessing as m\nif __name__ == '__main__':\n  with m.Pool(3) as p: print(p.map(abs, range(-20, 20)))"),
  python("import sys; sys.setrecursionlimit(5000)\ndef f(n): return n and 1 + f(n - 1)\nprint(f(4000))\ntry: 1 / 0\nexcept ZeroDivisionError as e: print(e)\n"
    .. "import ctypes; print(ctypes.CDLL(None).abs(-5))\nsys.exit(9)"),
  python("import asyncio\nasync def f(i):\n  await asyncio.sleep(.01 * (i % 3)); return i\nasync def main():\n  print(await asyncio.gather(*map(f, range(20))))\n"
    .. "  p = await asyncio.create_subprocess_exec('echo', 'hi', stdout=-1)\n  print(await p.communicate())\nasyncio.run(main())", {children = true}),
})

add("lua5.4", {heavy = true, {{"lua5.4", "-e", "local t = nil; print(t.x)"}, err = true}})
for _, name in ipairs {"strings", "gc", "coroutines", "floats", "objects"} do
  add("lua5.4", {heavy = true, "lua5.4 ROOT/spec/judges/lua/" .. name .. ".lua"})
end
add("sqlite3", {heavy = true,
  {{"sqlite3", ":memory:", "with recursive c(x) as (values(1) union all select x + 1 from c where x < 5000) select count(*), sum(x), avg(x * x % 7), group_concat(x % 10) "
    .. "from (select x from c where x % 97 = 0);"}},
  {{"sqlite3", "db", "create table t(a integer primary key, b text); insert into t(b) values ('x'), ('y'), ('zz'); create index i on t(b); begin; "
    .. "update t set b = b || a; commit; select * from t order by b desc; pragma integrity_check;"}},
})
add("git", {heavy = true, children = true, timeout = 600, filter = {"size%-pack: %d+"}, leaves = false,
  env = {"HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@b",
    "GIT_AUTHOR_DATE=2020-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2020-01-01T00:00:00Z"},
  shell("bash", "git -c init.defaultBranch=main init -q . && git add . && git commit -qm one && echo more >>words && git commit -qam two && git log --stat --format='%H %s %cd' "
    .. "&& git diff HEAD~ && git gc -q && git fsck && git count-objects -v && git status --short && git branch x && git checkout -q x && git blame words"),
})
add("gcc", {heavy = true, children = true, timeout = 600,
  shell("bash", [[printf '#include <stdio.h>\n#include <math.h>\nint main(int c, char **v) { double s = 0; for (int i = 1; i < 1000; i++) s += sqrt(i) / (i + c); printf("%%.6f\\n", s); return 4; }\n' >p.c
gcc -O2 -Wall -o p p.c -lm && ./p]]),
  shell("bash", [[printf '#include <map>\n#include <string>\n#include <iostream>\nint main() { std::map<std::string, int> m; try { for (int i = 0; i < 9; i++) { m[std::to_string(i %% 4)] += i; if (i == 8) throw i; } } catch (int e) { std::cout << "caught " << e << "\\n"; } for (auto &p : m) std::cout << p.first << "=" << p.second << "\\n"; }\n' >p.cc
g++ -O1 -o p p.cc && ./p]]),
  shell("bash", "printf 'int f(int x) { return x * 3 + y; }' >bad.c; gcc -c bad.c", {err = true}),
})
add("openssl", {heavy = true, "openssl dgst -sha256 text", "openssl dgst -sha3-512 text", "openssl dgst -blake2b512 bytes", "openssl prime 1000003", "openssl list -digest-commands",
  "openssl enc -aes-256-cbc -K 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff -iv 00112233445566778899aabbccddeeff -in text -out enc",
  "openssl enc -aes-128-ctr -K 00112233445566778899aabbccddeeff -iv 00112233445566778899aabbccddeeff -in bytes -a",
  "openssl enc -chacha20 -K 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff -iv 00112233445566778899aabbccddeeff -in text -a",
  shell("bash", [[
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key -out cert -subj /CN=localhost -days 9 2>/dev/null || exit 1
openssl s_server -accept 127.0.0.1:0 -cert cert -key key -rev -naccept 1 >log 2>&1 & server=$!
for i in {1..600}; do port=$(sed -n 's/^ACCEPT .*://p' log); [ -n "$port" ] && break; sleep 0.1; done
mkfifo in; openssl s_client -connect 127.0.0.1:$port -quiet -no_ign_eof -CAfile cert <in >answer 2>err & client=$!
exec 3>in; echo hello >&3; for i in {1..600}; do [ -s answer ] && break; sleep 0.1; done; exec 3>&-
cat answer; wait $client; wait $server; echo $?; rm -f key cert log in err]], {children = true, timeout = 600}),
})
add("curl", {heavy = true, children = true, timeout = 600, shell("bash", [[
python3 -u -m http.server 0 --bind 127.0.0.1 >log 2>/dev/null & server=$!
for i in {1..600}; do port=$(sed -n 's/.* port \([0-9]*\) .*/\1/p' log); [ -n "$port" ] && break; sleep 0.1; done
curl -s http://127.0.0.1:$port/text | md5sum; curl -sI http://127.0.0.1:$port/words | grep -i length
curl -s -o /dev/null -w '%{http_code} %{size_download}\n' http://127.0.0.1:$port/{nosuch,bytes}
kill $server; wait $server; echo $?; rm log]])})
add("node", {heavy = true, timeout = 600,
  {{"node", "-e", "const f = n => n < 2 ? n : f(n - 1) + f(n - 2); console.log(f(25)); const m = new Map(); for (let i = 0; i < 1e5; i++) m.set('k' + i % 99, (m.get('k' + i % 99) || 0) + i * 1.5);"
    .. "console.log([...m].slice(0, 5)); console.log(JSON.stringify({a: [1, 2.5, null]}), 'xyz'.replace(/y/, c => c.toUpperCase())); setTimeout(() => { console.log('later'); process.exit(6) }, 20)"}},
  {{"node", "-e", "const {Worker} = require('worker_threads'); console.log(require('crypto').createHash('sha256').update('x').digest('hex'));"
    .. "const w = new Worker(`let s = 0; for (let i = 0; i < 1e6; i++) s = (s * 31 + i) | 0; require('worker_threads').parentPort.postMessage(s)`, {eval: true}); w.on('message', s => {"
    .. "console.log(s); require('fs').readFile('words', 'utf8', (e, t) => console.log(t.length)) }); new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]))"}},
})
add("gdb", {heavy = true, timeout = 600, "gdb --version", {{"gdb", "-batch", "-nx", "-ex", "info functions xyzzy", "-ex", "print 6 * 7", "/usr/bin/true"}}})
add("busybox", {"busybox sha256sum text", "busybox sort -n nums", "busybox wc text", "busybox bzip2 -c text", "busybox tar cf out.tar words", {"busybox vi --help", err = true},
  {{"busybox", "awk", "{ n[$2]++ } END { for (i in n) s += n[i] * length(i); print s }", "text"}},
  shell("sh", "exec busybox sh -c 'for i in $(busybox seq 1 50); do x=$((x + i)); done; echo $x; busybox ls tree | busybox sed s/w/W/; exit 3'", {children = true})})

M.rows = rows
return M
