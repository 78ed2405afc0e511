import { events, request, RequestError } from "../api";

/** What a model draws and how it is asked: `talon.pictures` of /v1/models. */
export interface PictureFacts {
  width: number;
  height: number;
  columns: number;
  rows: number;
  prompt: "words" | "class" | "caption" | "text";
  drafter: string;
  /** That the model is drawn with. */
  guidance: number;
  styles?: string[];
  classes?: number;
  words?: string[];
  class_names?: string[];
}

export interface DrawingModel {
  id: string;
  facts: PictureFacts;
}

/** What a series is asked with. An empty drafter stands for the server's. */
export interface Asked {
  model: string;
  prompt: string;
  /** A caption's features in base64; empty: another prompt. */
  caption: string;
  count: number;
  seed: number;
  guidance: number;
  temperature: number;
  drafter: string;
}

/** How far one picture is, as an event tells it. */
export interface PictureNews {
  index: number;
  seed: number;
  drafter: string;
  /** Of the target. */
  forwards: number;
  /** Of the cells that are drawn: how deep in a draft each stood, 0: the target's own. */
  depths: number[];
  /** A data URL. */
  source: string;
  isDone: boolean;
  /** Codes and what stands between them, once it is done. */
  tokens?: number;
}

interface PictureEvent {
  error?: { message: string };
  type?: string;
  b64_json: string;
  usage?: { output_tokens: number };
  talon: { index: number; seed: number; drafter: string; forwards: number; depths: number[] };
}

function bodyOf(asked: Asked, partialImages: number): Record<string, unknown> {
  return {
    model: asked.model,
    prompt: asked.prompt || undefined,
    caption_features: asked.caption || undefined,
    n: asked.count,
    seed: asked.seed,
    guidance: asked.guidance,
    temperature: asked.temperature,
    stream: true,
    partial_images: partialImages,
    talon: asked.drafter ? { drafter: asked.drafter } : undefined,
  };
}

/** Asks for pictures, and gives news of them as they grow. Throws RequestError, or AbortError when stopped. */
export async function* draw(asked: Asked, partialImages: number, signal: AbortSignal): AsyncGenerator<PictureNews> {
  const response = await request("/v1/images/generations", { method: "POST", body: JSON.stringify(bodyOf(asked, partialImages)), signal });
  let done = 0;
  for await (const data of events(response, signal)) {
    const news = newsOf(JSON.parse(data) as PictureEvent);
    if (news.isDone) ++done;
    yield news;
  }
  if (done < asked.count) throw new RequestError({ kind: "cut", message: "The connection ended before the pictures were drawn." });
}

function newsOf(event: PictureEvent): PictureNews {
  if (event.error) throw new RequestError({ kind: "failed", message: event.error.message });
  const { index, seed, drafter, forwards, depths } = event.talon;
  return {
    index,
    seed,
    drafter,
    forwards,
    depths,
    source: `data:image/png;base64,${event.b64_json}`,
    isDone: event.type === "image_generation.completed",
    tokens: event.usage?.output_tokens,
  };
}
