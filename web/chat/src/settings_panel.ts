import { getJson } from "./api";
import { h, iconButton } from "./dom";
import { keepPreferences, keepSettings, preferences, settings, usualSettings, type Settings } from "./settings";

const drafters = ["auto", "none", "suffix", "ngram", "eagle3", "eagle3+suffix"];
const policies = ["throughput", "fixed", "eagle2", "ddd"];

/** What questions are asked with. Each change counts at once, for the next answer. */
export class SettingsPanel {
  readonly element = h("dialog", { class: "panel", "aria-labelledby": "settings-title" });
  private readonly form = h("form", { method: "dialog" });
  private readonly model = h("select", { name: "model", onchange: () => this.set("model", this.model.value) });

  constructor(private readonly changed: () => void) {
    this.element.append(this.form);
    this.element.addEventListener("click", (event) => event.target === this.element && this.element.close());
  }

  /** draws: settings of pictures lie with their prompt, so the key alone is left. */
  open(draws: boolean, focus?: "key"): void {
    this.fill(draws);
    this.element.showModal();
    if (focus === "key") this.form.querySelector<HTMLInputElement>("[name=key]")?.focus();
    if (!draws) this.listModels();
  }

  private listModels(): void {
    getJson<{ data?: { id: string; talon?: { pictures?: object } }[] }>("/v1/models").then(
      ({ data = [] }) => {
        const writing = data.filter(({ talon }) => !talon?.pictures);
        if (writing.length === 0) return;
        this.model.replaceChildren(...writing.map(({ id }) => h("option", { value: id, selected: id === settings.model }, id)));
      },
      () => undefined,
    );
  }

  private fill(draws = false): void {
    this.model.replaceChildren(h("option", { value: settings.model }, settings.model || "the first"));
    const system = h("textarea", { name: "system", rows: 3, value: settings.system, placeholder: "None", oninput: () => this.set("system", system.value) });
    const key = h("input", {
      name: "key",
      type: "password",
      autocomplete: "off",
      value: preferences.key,
      placeholder: "None",
      oninput: () => {
        preferences.key = key.value;
        keepPreferences("key");
        this.changed();
      },
    });
    const header = h(
      "header",
      {},
      h("h2", { id: "settings-title", tabIndex: -1, autofocus: true }, "Settings"),
      iconButton("close", "Close", () => this.element.close()),
    );
    const done = h("button", { class: "primary" }, "Done");
    if (draws) return this.form.replaceChildren(header, field("Key of the server", key), h("footer", {}, h("span", {}), done));
    this.form.replaceChildren(
      header,
      field("Model", this.model),
      field("System prompt", system),
      h(
        "div",
        { class: "pair" },
        this.slider("Temperature", "temperature", 2, 0.05, "0: the likeliest token"),
        this.slider("Top-p", "topP", 1, 0.01, "1: nothing is cut"),
      ),
      h(
        "div",
        { class: "pair" },
        this.number("Most tokens", "maxTokens", "To the end", 1),
        this.number("Seed", "seed", "Another each time"),
      ),
      h("div", { class: "pair" }, this.choice("Drafter", "drafter", drafters), this.choice("Policy", "policy", policies)),
      h("p", { class: "hint" }, "Drafter and policy change how fast an answer comes, never its text."),
      field("Key of the server", key),
      h("footer", {}, h("button", { type: "button", class: "ghost worded", onclick: () => this.reset() }, "As they were"), done),
    );
  }

  private set<Key extends keyof Settings>(key: Key, value: Settings[Key]): void {
    settings[key] = value;
    keepSettings(key);
    this.changed();
  }

  private reset(): void {
    Object.assign(settings, usualSettings);
    keepSettings(...(Object.keys(usualSettings) as (keyof Settings)[]));
    this.changed();
    this.fill();
    this.listModels();
  }

  private slider(label: string, key: "temperature" | "topP", most: number, step: number, hint: string): HTMLElement {
    const shown = h("output", {}, settings[key].toFixed(2));
    const input = h("input", {
      type: "range",
      "aria-label": label, // the label's own is the output
      min: "0",
      max: String(most),
      step: String(step),
      value: String(settings[key]),
      oninput: () => {
        this.set(key, Number(input.value));
        shown.value = settings[key].toFixed(2);
      },
    });
    return h("label", { class: "field" }, h("span", {}, label, shown), input, h("small", {}, hint));
  }

  private number(label: string, key: "maxTokens" | "seed", placeholder: string, least?: number): HTMLElement {
    const input = h("input", {
      type: "number",
      step: "1",
      min: least === undefined ? undefined : String(least),
      value: settings[key],
      placeholder,
      oninput: () => input.validity.valid && this.set(key, input.value),
    });
    return field(label, input);
  }

  private choice(label: string, key: "drafter" | "policy", names: string[]): HTMLElement {
    const list = h("datalist", { id: `names-${key}` }, ...names.map((name) => h("option", { value: name })));
    const input = h("input", { value: settings[key], placeholder: "The server's", spellcheck: "false", oninput: () => this.set(key, input.value.trim()) });
    input.setAttribute("list", list.id);
    return h("label", { class: "field" }, h("span", {}, label), input, list);
  }
}

function field(label: string, input: HTMLElement): HTMLElement {
  return h("label", { class: "field" }, h("span", {}, label), input);
}
