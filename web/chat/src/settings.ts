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

function read<Value extends object>(name: string, usual: Value): Value {
  try {
    return { ...usual, ...(JSON.parse(localStorage.getItem(name) ?? "{}") as Partial<Value>) };
  } catch {
    return { ...usual };
  }
}

function write(name: string, value: object): void {
  try {
    localStorage.setItem(name, JSON.stringify(value));
  } catch {
    // A browser that keeps nothing: settings last as long as the page.
  }
}

export const settings = read("talon-settings", usualSettings);
export const preferences = read("talon-preferences", usualPreferences);
export const keepSettings = () => write("talon-settings", settings);

export function keepPreferences(): void {
  write("talon-preferences", preferences);
  showPreferences();
}

export function showPreferences(): void {
  const root = document.documentElement;
  root.dataset.theme = preferences.theme;
  root.classList.toggle("tinted", preferences.tint);
}
