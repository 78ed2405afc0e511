import { read, write } from "../settings";

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

const usualDrawing: DrawingSettings = { model: "", prompt: "", style: "", count: 4, seed: "", guidance: null, temperature: 1, drafter: "" };

export const drawing = read("talon-drawing", usualDrawing);
export const keepDrawing = (...names: (keyof DrawingSettings)[]): void => write("talon-drawing", usualDrawing, drawing, names);
