#!/usr/bin/env bash
# Measures ways to draw with a model and a head that scripts/train_images.sh trained, and what the pictures show, beside plain
# drawing of the same run: exact drafts, the same fixed tree with and without the noise, rules that relax, and trees that follow
# their neighbours. Writes FOLDER/bench/NAME/ (pictures, pictures.html, run.jsonl); a part that is there is not made again. The last
# line and the tables of each part go to bench/results, or to FOLDER/bench if PROMPTS or EACH is given.
# usage: scripts/bench_images.sh FOLDER [talon]      PICTURES=icons (or cifar10)  PROMPTS=48  EACH=4 (or 40)  THREADS=2
#        PROMPTS: of the speed of each method, evenly from all that are held out, which are sorted by style; where there are
#        fewer, as many pictures of each as come to that number. EACH: pictures of every one, for what those of exact and relaxed
#        methods show
set -euo pipefail

folder=$(realpath "${1:?usage: scripts/bench_images.sh FOLDER [talon]}")
results=$(realpath "$(dirname "$0")/../bench/results")
talon=$(realpath "${2:-build/talon}")
pictures=${PICTURES:-icons}
model=model/model  # in the folder, as all that results name
held_out=$pictures/held_out.jsonl
most=${PROMPTS:-48}
each=4
[ "$pictures" != cifar10 ] || each=40 # of ten prompts, 64 codes a picture
each=${EACH:-$each}
codebook=$model/vq.safetensors
cd "$folder"
mkdir -p bench
if [ -n "${PROMPTS:-}${EACH:-}" ]; then results=$folder/bench; fi

# Paths have no commas, or they would end an option.
head=head=head/head
tree() { echo "eagle2:tree=$1,$head${2:+,$2}@policy=fixed"; }
relaxed() { echo "eagle2:tree=naive_extend_57,$head,$1@policy=fixed@verify=$2"; } # CHILDREN RULE
lantern() { relaxed "$1" "lantern:codebook=$codebook,k=$2,$3"; }
join() { local IFS=,; echo "$*"; }

measure() { # NAME PROMPTS PICTURES_OF_EACH METHODS...    nodes: most of a check
  local name=$1 prompts=$2 each=$3
  shift 3
  [ -f "bench/$name/run.jsonl" ] && { echo "bench_images: bench/$name is there"; return; }
  rm -rf "bench/$name"
  "$talon" bench image -m "$model" --prompts "$prompts" -n "$each" --threads "${THREADS:-2}" --methods "$(join "$@")" \
    --max-nodes "${nodes:-64}" --pictures "bench/$name/pictures" --report "bench/$name" > "bench/$name.part"
  mv "bench/$name.part" "bench/$name/run.jsonl"
}

[ -f "$codebook" ] || { echo "bench_images: expected $codebook, found none: scripts/train_images.sh makes it" >&2; exit 1; }
some=bench/some.jsonl
awk -v some="$most" 'NR == FNR { count = NR; next } int(FNR * some / count) > int((FNR - 1) * some / count)' \
  "$held_out" "$held_out" > $some
count=$(wc -l < $some)
repeats=$(((most + count - 1) / count)) # pictures of each
measure exact $some "$repeats" jacobi grid jacobi+grid "eagle2:$head" "eagle2:$head+jacobi"
measure trees $some "$repeats" "$(tree naive_extend_57 coupled=off)" "$(tree naive_extend_57)" "$(tree chain coupled=off)" \
  "$(tree chain)" "$(tree mc_sim_7b_63 coupled=off)" "$(tree mc_sim_7b_63)" "jacobi:window=32@policy=fixed" \
  "jacobi:window=32,width=1@policy=fixed" "eagle2:$head+jacobi:window=32@policy=fixed"
nodes=128 measure merged $some "$repeats" "$(tree naive_extend_57)" \
  "eagle2:tree=naive_extend_57,$head+jacobi:window=32@policy=fixed" "eagle2:$head+jacobi:window=32@policy=fixed"
# A node's children: the likeliest ones, or drawn without replacement, as the published code of LANTERN++ does (docs/methods.md 3.1),
# which with the rule token is exact in law.
rules=("$(relaxed draw=on token)")
for children in coupled=off draw=on; do
  rules+=("$(lantern $children 10 lambda=2)" "$(lantern $children 10 lambda=5)" "$(lantern $children 5 lambda=10)"
    "$(lantern $children 5 lambda=20)" "$(lantern $children 10 delta=0.1)" "$(lantern $children 1000 delta=0.2)"
    "$(relaxed $children epsilon:e=0.05)" "$(relaxed $children epsilon:e=0.1)" "$(relaxed $children epsilon:e=0.2)")
done
nodes=128 measure relaxed "$held_out" "$each" "$(tree naive_extend_57)" \
  "eagle2:tree=naive_extend_57,$head+jacobi:window=32@policy=fixed" "${rules[@]}"
# ADT-Tree, without neighbours, and a fixed tree of as many nodes as it has on the average.
parts=(exact trees merged relaxed)
for seed in 1 2 3; do
  awk -v seed=$((1000 * seed)) -v repeats="$repeats" '{ sub(/}[ \t\r]*$/, ", \"seed\": " (seed + repeats * (NR - 1)) "}"); print }' \
    $some > "bench/some_$seed.jsonl"
  adaptive=eagle2:$head@policy=adjacency
  measure "adjacency_$seed" "bench/some_$seed.jsonl" "$repeats" "$adaptive" "$adaptive:neighbour=none"
  mean=$(tail -1 "bench/adjacency_$seed/run.jsonl" | python3 -c \
    'import json, sys; print(max(1, round(json.load(sys.stdin)["summary"][sys.argv[1]]["nodes"])))' "$adaptive")
  measure "fixed_$seed" "bench/some_$seed.jsonl" "$repeats" "eagle2:$head@policy=eagle2:nodes=$mean"
  parts+=("adjacency_$seed" "fixed_$seed")
done
# Exact pictures of other seeds, as many of each prompt as of the relaxed rules: how far sets of one law are apart.
others=bench/other_seeds_$each
awk -v each="$each" '{
  for (i = 0; i < each; i++) { line = $0; sub(/}[ \t\r]*$/, ", \"seed\": " (100000 + n++) "}", line); print line }
}' "$held_out" > "$others.jsonl"
"$talon" image -m "$model" --batch "$others.jsonl" -o "$others" --threads "${THREADS:-2}"
"$talon" train image compare --data "$pictures" --features features --tokenizer tokenizer --bench bench/relaxed/run.jsonl \
  --sets "$others" --report bench/compared --threads "${THREADS:-2}"

mkdir -p "$results"
for part in "${parts[@]}"; do tail -1 "bench/$part/run.jsonl"; done > "$results/images_$pictures.jsonl"
for part in "${parts[@]}" compared; do
  printf '## %s\n\n' "$part"
  cat "bench/$part/pictures.md"
  echo
done > "$results/images_$pictures.md"
