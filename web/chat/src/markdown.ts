import DOMPurify from "dompurify";
import { Marked, type Token, type TokensList } from "marked";
import { copyButton, h } from "./dom";
import { indexAt, wrapTokens, type TokenSpan } from "./tokens";

const escapes: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escape = (text: string) => text.replace(/[&<>"]/g, (char) => escapes[char]);

// What looks like HTML is shown as it was written, and pictures as the words that stand for them: nothing is loaded.
const marked = new Marked({
  gfm: true,
  renderer: {
    html: ({ text }) => escape(text),
    image: ({ raw }) => escape(raw),
  },
});

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName !== "A") return;
  node.setAttribute("target", "_blank");
  node.setAttribute("rel", "noopener noreferrer nofollow");
});

function sanitised(html: string): DocumentFragment {
  return DOMPurify.sanitize(html, {
    RETURN_DOM_FRAGMENT: true,
    ALLOWED_TAGS: "p br hr h1 h2 h3 h4 h5 h6 ul ol li blockquote pre code em strong del a table thead tbody tr th td input".split(" "),
    ALLOWED_ATTR: ["href", "start", "align", "class", "type", "checked", "disabled"],
  });
}

interface Block {
  raw: string;
  begin: number;
  tokens: string;
  element: HTMLElement;
}

/** An answer as Markdown, block by block: as it grows only blocks that changed are made anew. */
export class MarkdownView {
  readonly element = h("div", { class: "prose" });
  private blocks: Block[] = [];

  show(source: string, spans: TokenSpan[]): void {
    try {
      this.showBlocks(source, spans);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      // Nested deeper than its readers' stack goes: words as they are.
      this.blocks = [];
      this.element.replaceChildren(h("p", { class: "unread" }, source));
    }
  }

  private showBlocks(source: string, spans: TokenSpan[]): void {
    const list = marked.lexer(source);
    if (this.blocks.length === 0) this.element.replaceChildren();
    let begin = 0;
    const next: Block[] = [];
    for (const token of list) {
      const at = begin;
      begin += token.raw.length;
      if (token.type === "space") continue;
      next.push(this.block(token, at, source, spans, list, next.length));
    }
    for (const block of this.blocks.slice(next.length)) block.element.remove();
    this.blocks = next;
  }

  private block(token: Token, begin: number, source: string, spans: TokenSpan[], list: TokensList, place: number): Block {
    const end = begin + token.raw.length;
    const within = indexAt(spans, end) - indexAt(spans, begin);
    const tokens = `${spans.length > 0}${within} ${Object.keys(list.links).length}`;
    const before = this.blocks[place] as Block | undefined;
    if (before?.raw === token.raw && before.begin === begin && before.tokens === tokens) return before;
    const element = h("div", { class: "block" });
    const one = Object.assign([token], { links: list.links });
    element.append(sanitised(marked.parser(one)));
    for (const pre of element.querySelectorAll("pre")) frameCode(pre);
    for (const table of element.querySelectorAll("table")) {
      const wide = h("div", { class: "wide" });
      table.replaceWith(wide);
      wide.append(table);
    }
    // Marked leaves out tabs and the spaces of its own; offsets hold as long as the source is what it read.
    if (spans.length > 0) wrapTokens(element, source, begin, end, spans);
    if (before) before.element.replaceWith(element);
    else this.element.append(element);
    return { raw: token.raw, begin, tokens, element };
  }
}

/** A code block with its language and a way to copy it. */
function frameCode(pre: HTMLPreElement): void {
  const code = pre.querySelector("code");
  const language = /language-([\w+#.-]+)/.exec(code?.className ?? "")?.[1] ?? "";
  const bar = h("div", { class: "code-bar", "data-no-tokens": "" }, h("span", {}, language), copyButton("Copy code", () => code?.textContent ?? ""));
  const frame = h("div", { class: "code" });
  pre.replaceWith(frame);
  pre.tabIndex = 0; // scrolls sideways
  frame.append(bar, pre);
}
