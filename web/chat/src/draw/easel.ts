import { h, icon } from "../dom";
import type { Asked, DrawingModel } from "./picture_api";
import { drawing, keepDrawing, type DrawingSettings } from "./settings";

const drafters = ["auto", "none", "jacobi", "grid", "jacobi+grid"];
const mostPictures = 16;
const mostSeed = 2 ** 31;

interface EaselActions {
  draw(asked: Asked, model: DrawingModel): void;
  stop(): void;
  refuse(message: string): void;
}

/** Where pictures are asked for: the prompt as the model takes it, and settings that are kept. */
export class Easel {
  private readonly prompt = h("div", { class: "prompt" });
  private readonly button = h("button", { type: "submit", class: "send" });
  private readonly more = h("div", { class: "knobs" });
  readonly element: HTMLFormElement;
  private isBusy = false;
  private file: File | null = null;

  constructor(
    private readonly models: DrawingModel[],
    private readonly actions: EaselActions,
  ) {
    this.element = h("form", { class: "easel", "aria-label": "What to draw" }, h("div", { class: "field" }, this.prompt, this.button), this.more);
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.isBusy) this.actions.stop();
      else void this.send();
    });
    this.fill();
    this.setBusy(false);
  }

  focus(): void {
    this.prompt.querySelector<HTMLElement>("input, select")?.focus({ preventScroll: true });
  }

  setBusy(isBusy: boolean): void {
    this.isBusy = isBusy;
    const label = isBusy ? "Stop (Esc)" : "Draw (Enter)";
    this.button.replaceChildren(icon(isBusy ? "stop" : "draw"));
    this.button.title = label;
    this.button.setAttribute("aria-label", label);
  }

  /** Asks for what a suggestion says. */
  suggest(prompt: string, style: string): void {
    Object.assign(drawing, { prompt, style });
    keepDrawing("prompt", "style");
    this.fill();
    void this.send();
  }

  get model(): DrawingModel {
    return this.models.find(({ id }) => id === drawing.model) ?? this.models[0];
  }

  /** Once more is known of a model: its words or the names of its classes. Whoever types there goes on. */
  fillPrompt(): void {
    const { facts } = this.model;
    const isTyping = this.prompt.contains(document.activeElement);
    const inputs = { words: () => this.words(), class: () => this.category(), caption: () => this.caption(), text: () => [this.text("A picture of …")] };
    this.prompt.replaceChildren(...inputs[facts.prompt]());
    if (isTyping) this.focus();
  }

  private fill(): void {
    this.fillPrompt();
    this.more.replaceChildren(
      ...(this.models.length > 1 ? [this.choice("Model", "model", this.models.map(({ id }) => id), this.model.id)] : []),
      this.number("Pictures", "count", 1, mostPictures),
      this.number("Seed", "seed", 0, mostSeed, "Any"),
      this.slider("Guidance", "guidance", 0, 10, 0.25),
      this.slider("Temperature", "temperature", 0, 2, 0.05),
      this.drafter(),
    );
  }

  private async send(): Promise<void> {
    if (!this.element.reportValidity()) return;
    const { facts } = this.model;
    const words = drawing.prompt.trim();
    const styles = facts.styles ?? [];
    const isStyled = styles.includes(words.split(/[\s,]+/).at(-1) ?? "");
    const style = styles.includes(drawing.style) ? drawing.style : styles[0]; // another model's may be kept
    const prompt = facts.prompt === "words" && !isStyled ? `${words} ${style}`.trim() : words;
    if (!prompt && facts.prompt !== "caption") return this.focus();
    if (facts.prompt === "caption" && !this.file) return this.actions.refuse("Choose the features of a caption first: a safetensors file.");
    const caption = facts.prompt === "caption" && this.file ? await base64Of(this.file).catch(() => null) : "";
    if (caption === null) return this.actions.refuse(`${this.file?.name ?? "The file"} cannot be read: choose it again.`);
    const asked: Asked = {
      model: this.model.id,
      prompt: facts.prompt === "caption" ? (this.file?.name ?? "") : prompt,
      caption,
      count: drawing.count,
      seed: drawing.seed === "" ? Math.floor(Math.random() * mostSeed) : Number(drawing.seed),
      guidance: drawing.guidance ?? facts.guidance,
      temperature: drawing.temperature,
      drafter: drawing.drafter,
    };
    this.actions.draw(asked, this.model);
  }

  private set<Key extends keyof DrawingSettings>(key: Key, value: DrawingSettings[Key]): void {
    drawing[key] = value;
    keepDrawing(key);
  }

  private text(placeholder: string, names: string[] = []): HTMLElement {
    const input = h("input", {
      value: drawing.prompt,
      placeholder,
      "aria-label": "What to draw",
      "aria-keyshortcuts": "/",
      autocomplete: "off",
      spellcheck: "false",
      oninput: () => this.set("prompt", input.value),
    });
    if (names.length === 0) return input;
    const list = h("datalist", { id: "drawing-names" }, ...names.map((name) => h("option", { value: name })));
    input.setAttribute("list", list.id);
    return h("span", { class: "listed" }, input, list);
  }

  private words(): HTMLElement[] {
    const { styles = [], words = [] } = this.model.facts;
    const style = h("select", { "aria-label": "Style", onchange: () => this.set("style", style.value) });
    style.append(...styles.map((name) => h("option", { value: name, selected: name === drawing.style }, name)));
    return [this.text("A few words", words), style];
  }

  private category(): HTMLElement[] {
    const { class_names: names = [], classes = 1 } = this.model.facts;
    return [this.text(names.length > 0 ? "A category, or its number" : `A category: 0 to ${classes - 1}`, names)];
  }

  private caption(): HTMLElement[] {
    const input = h("input", { type: "file", accept: ".safetensors", "aria-label": "Features of a caption", onchange: () => (this.file = input.files?.[0] ?? null) });
    return [input];
  }

  private choice(label: string, key: "model", names: string[], value: string): HTMLElement {
    const select = h("select", {
      onchange: () => {
        this.set(key, select.value);
        this.fill();
      },
    });
    select.append(...names.map((name) => h("option", { value: name, selected: name === value }, name)));
    return field(label, select);
  }

  private number(label: string, key: "count" | "seed", least: number, most: number, placeholder = ""): HTMLElement {
    const input = h("input", {
      type: "number",
      step: "1",
      min: String(least),
      max: String(most),
      required: key === "count",
      value: String(drawing[key]),
      placeholder,
      oninput: () => {
        if (!input.validity.valid) return;
        if (key === "count") this.set("count", Number(input.value));
        else this.set("seed", input.value);
      },
    });
    return field(label, input);
  }

  private slider(label: string, key: "guidance" | "temperature", least: number, most: number, step: number): HTMLElement {
    const value = () => String(drawing[key] ?? this.model.facts.guidance);
    const shown = h("output", {}, value());
    const input = h("input", {
      type: "range",
      "aria-label": label, // the label's own is the output
      min: String(least),
      max: String(most),
      step: String(step),
      value: value(),
      oninput: () => {
        this.set(key, Number(input.value));
        shown.value = value();
      },
    });
    return h("label", { class: "field" }, h("span", {}, label, shown), input);
  }

  private drafter(): HTMLElement {
    const list = h("datalist", { id: "drawing-drafters" }, ...drafters.map((name) => h("option", { value: name })));
    const input = h("input", { value: drawing.drafter, placeholder: this.model.facts.drafter, spellcheck: "false", oninput: () => this.set("drafter", input.value.trim()) });
    input.setAttribute("list", list.id);
    return h("label", { class: "field" }, h("span", {}, "Drafter"), input, list);
  }
}

function field(label: string, input: HTMLElement): HTMLElement {
  return h("label", { class: "field" }, h("span", {}, label), input);
}

function base64Of(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^[^,]*,/, ""));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
