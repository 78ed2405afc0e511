import { RequestError, type Problem } from "../api";
import { draw, type Asked, type DrawingModel, type PictureNews } from "./picture_api";

/** Pictures that were asked for at once. */
export interface Series {
  asked: Asked;
  model: DrawingModel;
  /** By index; the last news of each. */
  pictures: (PictureNews | undefined)[];
  began: number;
  seconds?: number;
  stopped?: boolean;
  problem?: Problem;
  plain?: PlainSeries;
  /** What the same without drafts failed with. */
  plainProblem?: Problem;
}

/** The same series drawn without drafts. */
export interface PlainSeries {
  forwards: number;
  seconds: number;
  equal: boolean;
}

export function begin(asked: Asked, model: DrawingModel): Series {
  return { asked, model, pictures: Array.from({ length: asked.count }), began: performance.now() };
}

export const isDone = (series: Series): boolean => series.seconds !== undefined && !series.stopped && !series.problem;
export const cellsOf = (series: Series): number => sum(series, (picture) => picture.depths.length);
export const forwardsOf = (series: Series): number => sum(series, (picture) => picture.forwards);

function sum(series: Series, of: (picture: PictureNews) => number): number {
  return series.pictures.reduce((all, picture) => all + (picture ? of(picture) : 0), 0);
}

/** Draws a series; what goes wrong is noted in it. */
export async function drawSeries(series: Series, signal: AbortSignal, changed: (index: number) => void): Promise<void> {
  try {
    for await (const news of draw(series.asked, series.model.facts.rows, signal)) {
      series.pictures[news.index] = news;
      changed(news.index);
    }
  } catch (error) {
    if (signal.aborted) series.stopped = true;
    else if (error instanceof RequestError) series.problem = error.problem;
    else series.problem = { kind: "failed", message: String(error) };
  }
  series.seconds = (performance.now() - series.began) / 1000;
}

/** Draws a finished series again without drafts, in the same way, and says in it what came of that. */
export async function drawPlainly(series: Series, signal: AbortSignal): Promise<void> {
  const seed = series.pictures[0]?.seed ?? series.asked.seed;
  const plain = begin({ ...series.asked, seed, drafter: "none" }, series.model);
  await drawSeries(plain, signal, () => undefined);
  series.plainProblem = plain.problem;
  if (!isDone(plain)) return;
  const pairs = await Promise.all(series.pictures.map(async (picture, i) => isSame(picture?.source, plain.pictures[i]?.source)));
  series.plain = { forwards: forwardsOf(plain), seconds: plain.seconds ?? 0, equal: pairs.every(Boolean) };
}

/** Whether two pictures have the same pixels; their files tell how they were drawn. */
async function isSame(a?: string, b?: string): Promise<boolean> {
  if (!a || !b) return false;
  const [first, second] = await Promise.all([pixelsOf(a), pixelsOf(b)]);
  return first.length === second.length && first.every((value, i) => value === second[i]);
}

async function pixelsOf(source: string): Promise<Uint8ClampedArray> {
  const image = new Image();
  image.src = source;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = image.naturalWidth;
  canvas.height = image.naturalHeight;
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  context.drawImage(image, 0, 0);
  return context.getImageData(0, 0, canvas.width, canvas.height).data;
}
