import { getJson, RequestError } from "./api";
import { h } from "./dom";

const calmMs = 10_000;
const anxiousMs = 2_000;
const patienceMs = 5_000; // a network that swallows everything answers nothing

export type Health = "ready" | "ending" | "gone";

/** Asks whether the server is there, and says above the conversation when it is not. */
export class HealthWatch {
  readonly element = h("div", { class: "banner", role: "status", hidden: true });
  private health: Health = "ready";
  private timer = 0;

  constructor(private readonly back: () => void) {}

  async look(): Promise<void> {
    clearTimeout(this.timer);
    const next = await this.ask();
    const isBack = next === "ready" && this.health !== "ready";
    this.health = next;
    this.element.hidden = next === "ready";
    this.element.textContent =
      next === "gone" ? "The server does not answer. The page keeps trying." : "The server is shutting down: running answers end, new ones are refused.";
    document.body.dataset.health = next;
    if (isBack) this.back();
    this.timer = window.setTimeout(() => void this.look(), next === "ready" ? calmMs : anxiousMs);
  }

  private async ask(): Promise<Health> {
    try {
      await getJson("/ready", AbortSignal.timeout(patienceMs));
      return "ready";
    } catch (error) {
      return error instanceof RequestError && error.problem.kind === "ending" ? "ending" : "gone";
    }
  }
}
