#!/usr/bin/env bash
# Answers one prompt with a small chat model, first plain, then drafted, and shows both speeds.
# usage: scripts/demo.sh TALON
set -euo pipefail
cd "$(dirname "$0")/.."
talon=$1

if [ ! -f downloads/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf ]; then
  "$talon" pull smollm2 --models downloads > /dev/null
fi

prompt='Correct the spelling mistakes in this text and repeat the whole text:

The lighthouse stands on a small iland at the mouth of the river. It was built in 1871 by a company of forty stonemasons, who carried every block across the watter in flat boats. The lighthouse keeper lived in the lower rooms with his famly, and climbed the two hundred and twelve steps every evening to light the lamp. In winter the boats could not cross, and the keeper had to live on flour, salted fish and dried apples untill the ice broke. The lamp was replaced by an electric light in 1934, and the last keeper left the island in 1962. Today the lighthouse is a musuem, and visitors may climb the two hundred and twelve steps to see the lamp, the river and the sea.'

printf '%s\n' "> $prompt" "" >&2
"$talon" run -m smollm2 --models downloads --chat --compare -n 220 -p "$prompt"
