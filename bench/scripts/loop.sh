# What bash does for bench/micro.lua: its memory is measured.
declare -A words
for ((i = 0; i < 20000; i++)); do
  words[w$((i % 500))]=$((i * i))
done
printf '%s\n' "${!words[@]}" | while read -r word; do [[ $word == *99 ]] && echo "${words[$word]}"; done | sort | tail -n 3
