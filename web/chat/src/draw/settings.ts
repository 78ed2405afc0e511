/** What pictures are asked with. Empty texts stand for what the server chooses. */
export interface DrawingSettings {
  model: string;
  prompt: string;
  style: string;
  count: number;
  seed: string;
  /** null: as the model is drawn with. */
  guidance: number | null;
  temperature: number;
  drafter: string;
}

export const usualDrawing: DrawingSettings = { model: "", prompt: "", style: "", count: 4, seed: "", guidance: null, temperature: 1, drafter: "" };

const key = "talon-drawing";

function read(): DrawingSettings {
  try {
    return { ...usualDrawing, ...(JSON.parse(localStorage.getItem(key) ?? "{}") as Partial<DrawingSettings>) };
  } catch {
    return { ...usualDrawing };
  }
}

export const drawing = read();

export function keepDrawing(): void {
  try {
    localStorage.setItem(key, JSON.stringify(drawing));
  } catch {
    // A browser that keeps nothing: settings last as long as the page.
  }
}
