type Child = Node | string | null | undefined | false;
type Props = Record<string, unknown>;

/** An element: `on...` are listeners, what the element has as a property is set as one, the rest are attributes. */
export function h<Name extends keyof HTMLElementTagNameMap>(name: Name, props: Props = {}, ...children: Child[]): HTMLElementTagNameMap[Name] {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value as EventListener);
    else if (key === "class") element.className = String(value);
    else if (key in element && !key.startsWith("aria")) (element as unknown as Props)[key] = value;
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  for (const child of children) if (child) element.append(child);
  return element;
}

export function svg(name: string, attributes: Record<string, string | number>, ...children: Node[]): SVGElement {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.append(...children);
  return element;
}

const strokes = {
  plus: "M12 5v14M5 12h14",
  menu: "M4 7h16M4 12h16M4 17h16",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  copy: "M9 9h10v11H9zM5 15V4h10",
  check: "M5 13l4 4L19 7",
  again: "M20 12a8 8 0 1 1-2.6-5.9M20 4v4h-4",
  edit: "M5 19h3L19 8l-3-3L5 16zM14 7l3 3",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  close: "M6 6l12 12M18 6L6 18",
  settings: "M4 8h9M17 8h3M4 16h3M11 16h9M15 6v4M9 14v4",
  live: "M3 12h4l3-7 4 14 3-7h4",
  race: "M4 8h12M4 16h7M19 5v6M14 13v6",
  theme: "M12 4a8 8 0 1 0 0 16zM12 4a8 8 0 0 1 0 16",
  help: "M9 9a3 3 0 1 1 4 2.8c-.7.3-1 .8-1 1.7M12 17.5v.1",
  down: "M12 5v14M6 13l6 6 6-6",
  tint: "M4 18h6M4 13h16M4 8h10",
  draw: "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M8.5 9v.1",
  chat: "M4 6h16v10H10l-4 4v-4H4z",
  download: "M12 4v11M7 10l5 5 5-5M5 20h14",
  back: "M15 5l-7 7 7 7",
  forth: "M9 5l7 7-7 7",
};
export type Icon = keyof typeof strokes;

export function icon(name: Icon): SVGElement {
  const path = svg("path", { d: strokes[name] });
  return svg("svg", { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true" }, path);
}

/** A button with a picture, and a name for those who do not see it. */
export function iconButton(name: Icon, label: string, onclick: (event: MouseEvent) => void, props: Props = {}): HTMLButtonElement {
  return h("button", { type: "button", class: "ghost", title: label, "aria-label": label, onclick, ...props }, icon(name));
}

/** Copies, and shows on the button that it did. */
export function copyButton(label: string, text: () => string): HTMLButtonElement {
  const button = iconButton("copy", label, async () => {
    const copied = await copyText(text());
    button.replaceChildren(icon(copied ? "check" : "close"));
    announce(copied ? "Copied." : "The browser did not copy it.");
    setTimeout(() => button.replaceChildren(icon("copy")), 1400);
  });
  return button;
}

async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Without https the clipboard is closed to pages; the old way is not.
    const area = h("textarea", { value: text, class: "hidden" });
    document.body.append(area);
    const before = document.activeElement;
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    if (before instanceof HTMLElement) before.focus({ preventScroll: true });
    return copied;
  }
}

const status = h("div", { role: "status", class: "hidden" });

/** Tells readers of screens. What is said twice differs by a space, or it would be heard once. */
export function announce(text: string): void {
  if (!status.isConnected) document.body.append(status);
  status.textContent = text && status.textContent === text ? `${text}\u00a0` : text;
}

export function isTyping(event: KeyboardEvent): boolean {
  return event.target instanceof HTMLElement && (event.target.matches("input, textarea, select") || event.target.isContentEditable);
}

/** Letters are being put together (IME): its keys are not the page's. Safari tells by the code alone. */
export const isComposing = (event: KeyboardEvent): boolean => event.isComposing || event.keyCode === 229;

/** Fingers write, and have no Shift: Enter begins a line, and the button asks. */
export const isTouch = (): boolean => matchMedia("(pointer: coarse)").matches;

/** Whether a key in a field of several lines asks what is written there. */
export function isAsking(event: KeyboardEvent): boolean {
  if (event.key !== "Enter" || isComposing(event)) return false;
  return event.ctrlKey || event.metaKey || !(event.shiftKey || isTouch());
}
