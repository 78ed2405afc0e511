/** What a question is asked with. Empty texts stand for what the server chooses. */
export interface Settings {
  model: string;
  system: string;
  temperature: number;
  topP: number;
  maxTokens: string;
  seed: string;
  drafter: string;
  policy: string;
}

export const usualSettings: Settings = {
  model: "",
  system: "",
  temperature: 0.7,
  topP: 1,
  maxTokens: "512",
  seed: "",
  drafter: "",
  policy: "",
};

/** How the page looks and who asks; not part of a question. */
export interface Preferences {
  theme: "auto" | "light" | "dark";
  tint: boolean;
  key: string;
  /** Where a server does both. */
  view: "chat" | "draw";
}

const usualPreferences: Preferences = { theme: "auto", tint: true, key: "", view: "chat" };

/** What lies in the browser under a name, over what is usual. */
export function read<Value extends object>(name: string, usual: Value): Value {
  try {
    return { ...usual, ...(JSON.parse(localStorage.getItem(name) ?? "{}") as Partial<Value>) };
  } catch {
    return { ...usual };
  }
}

/** Keeps what `names` say; the rest stays as it lies there, maybe of another tab. */
export function write<Value extends object>(name: string, usual: Value, value: Value, names: (keyof Value)[]): void {
  const kept = read(name, usual);
  for (const each of names) kept[each] = value[each];
  try {
    localStorage.setItem(name, JSON.stringify(kept));
  } catch {
    // A browser that keeps nothing: settings last as long as the page.
  }
}

export const settings = read("talon-settings", usualSettings);
export const preferences = read("talon-preferences", usualPreferences);
export const keepSettings = (...names: (keyof Settings)[]): void => write("talon-settings", usualSettings, settings, names);

export function keepPreferences(...names: (keyof Preferences)[]): void {
  write("talon-preferences", usualPreferences, preferences, names);
  showPreferences();
}

export function showPreferences(): void {
  const root = document.documentElement;
  root.dataset.theme = preferences.theme;
  root.classList.toggle("tinted", preferences.tint);
}
