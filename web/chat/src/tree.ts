import type { Round, Tree } from "./api";
import { h, svg } from "./dom";

const rowHeight = 24;
const charWidth = 7.3;
const gap = 26;
const padding = 7;

/** Text of a token as a label: its spaces and line ends can be seen. */
export function visible(text: string): string {
  const seen = text.replace(/^ /, "·").replace(/\n/g, "↵").replace(/\t/g, "⇥");
  return seen.length > 14 ? `${seen.slice(0, 13)}…` : seen || "∅";
}

interface Placed {
  label: string;
  parent: number;
  depth: number;
  row: number;
  chance: number;
  kind: "root" | "kept" | "guess" | "own";
}

/** Nodes of the tree and the token that the model added, from left to right. */
function placed(tree: Tree, own: string | undefined): Placed[] {
  const kept = new Set(tree.path);
  const nodes = tree.texts.map((text, i): Placed => {
    const parent = tree.parents[i];
    const chance = parent > 0 ? tree.p[i] / Math.max(tree.p[parent], 1e-9) : tree.p[i];
    return { label: visible(text), parent, depth: 0, row: 0, chance, kind: i === 0 ? "root" : kept.has(i) ? "kept" : "guess" };
  });
  if (own !== undefined) nodes.push({ label: visible(own), parent: tree.path.at(-1) ?? 0, depth: 0, row: 0, chance: 1, kind: "own" });
  const children: number[][] = nodes.map(() => []);
  nodes.forEach((node, i) => {
    if (node.parent < 0) return;
    node.depth = nodes[node.parent].depth + 1;
    children[node.parent].push(i);
  });
  // What became text runs along the top.
  const onText = (i: number) => (nodes[i].kind === "kept" ? 2 : nodes[i].kind === "own" ? 1 : 0);
  let rows = 0;
  const place = (i: number): void => {
    const order = children[i].sort((a, b) => onText(b) - onText(a) || nodes[b].chance - nodes[a].chance);
    order.forEach(place);
    nodes[i].row = order.length > 0 ? nodes[order[0]].row : rows++;
  };
  place(0);
  return nodes;
}

export function treePicture(tree: Tree, own: string | undefined): SVGElement {
  const nodes = placed(tree, own);
  const widths: number[] = [];
  const widthOf = (node: Placed) => node.label.length * charWidth + 2 * padding;
  for (const node of nodes) widths[node.depth] = Math.max(widths[node.depth] ?? 0, widthOf(node));
  const lefts = widths.map((_, depth) => widths.slice(0, depth).reduce((sum, width) => sum + width + gap, 1));
  const height = (Math.max(...nodes.map((node) => node.row)) + 1) * rowHeight;
  const width = (lefts.at(-1) ?? 0) + (widths.at(-1) ?? 0) + 2;
  const middle = (node: Placed) => node.row * rowHeight + rowHeight / 2;
  const lines: Node[] = [];
  const labels: Node[] = [];
  for (const node of nodes) {
    const left = lefts[node.depth];
    const faint = node.kind === "guess" ? (0.4 + 0.6 * Math.sqrt(node.chance)).toFixed(2) : "1";
    if (node.parent >= 0) {
      const from = nodes[node.parent];
      const x = lefts[from.depth] + widthOf(from);
      const bend = left - gap / 2;
      const d = `M${x} ${middle(from)}H${bend - 8}C${bend} ${middle(from)} ${bend - 8} ${middle(node)} ${left} ${middle(node)}`;
      lines.push(svg("path", { d, class: `edge ${node.kind}`, opacity: faint }));
    }
    const box = svg("rect", { x: left, y: middle(node) - 9.5, width: widthOf(node), height: 19, rx: 5 });
    const text = svg("text", { x: left + padding, y: middle(node) + 4 });
    text.textContent = node.label;
    const title = svg("title", {});
    title.textContent = describe(node);
    labels.push(svg("g", { class: `node ${node.kind}`, opacity: faint }, title, box, text));
  }
  return svg("svg", { class: "tree", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": "tree of guesses" }, ...lines, ...labels);
}

function describe(node: Placed): string {
  const chance = `${Math.round(100 * node.chance)} % sure`;
  if (node.kind === "root") return "the last token before the round";
  if (node.kind === "own") return "the model's own token";
  return node.kind === "kept" ? `guessed (${chance}) and right` : `guessed (${chance}), not used`;
}

/** In words: "5 guesses, 3 of them right: 4 tokens in one pass". */
export function inWords(round: Round): string {
  const tokens = round.texts.length;
  if (!round.tree && round.accepted === 0) return tokens === 1 ? "one token, nothing was guessed" : `${tokens} tokens`;
  const guesses = round.tree ? round.tree.texts.length - 1 : undefined;
  const right = `${round.accepted} of them right`;
  const passes = `${tokens} token${tokens === 1 ? "" : "s"} in one pass`;
  return guesses === undefined ? `${round.accepted} guessed right: ${passes}` : `${guesses} guess${guesses === 1 ? "" : "es"}, ${right}: ${passes}`;
}

export function roundCard(round: Round, number: number, of: number): HTMLElement {
  const own = round.texts.length > round.accepted ? round.texts.at(-1) : undefined;
  const head = h("header", {}, h("strong", {}, `Pass ${number} of ${of}`), h("span", { class: "quiet" }, inWords(round)));
  const body = round.tree
    ? h("div", { class: "tree-scroll", tabIndex: 0 }, treePicture(round.tree, own))
    : h("p", { class: "quiet" }, number === 1 ? "The first token comes from reading the question." : round.accepted > 0 ? "Trees are shown until the page is closed." : "The drafter had nothing worth checking.");
  const times = round.check_ms > 0 ? h("footer", { class: "quiet" }, `guessing ${round.draft_ms.toFixed(1)} ms · checking ${round.check_ms.toFixed(1)} ms`) : null;
  return h("div", { class: "round" }, head, body, times);
}
