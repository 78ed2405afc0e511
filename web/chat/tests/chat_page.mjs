// The chat page in Chromium against a real `talon serve`, for tests. In the environment:
//   TALON_URL   of the server, which serves a chat model
//   CHROMIUM    the browser (default /usr/bin/chromium)
//   SHOTS       a folder for pictures of what is seen, light, dark and on a phone
import { mkdirSync } from "node:fs";
import { after, before } from "node:test";
import { chromium } from "playwright-core";

export const url = process.env.TALON_URL;
const shots = process.env.SHOTS;
let browser;
export let page;
export let foreign; // requests to others than the server
export let complaints; // of the page itself

before(async () => {
  if (shots) mkdirSync(shots, { recursive: true });
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
});
after(() => browser?.close());

// Short answers that are the same each time, drafted however busy the machine is.
const prepared = () => {
  localStorage.getItem("talon-settings") ?? localStorage.setItem("talon-settings", JSON.stringify({ seed: "7", temperature: 0, maxTokens: "60", policy: "fixed" }));
};

/** prepare: what the browser does before the page's own script. */
export async function open({ prepare = prepared, ...options } = {}) {
  await page?.context().close();
  const context = await browser.newContext({ viewport: { width: 1180, height: 820 }, permissions: ["clipboard-read", "clipboard-write"], ...options });
  page = await context.newPage();
  foreign = [];
  complaints = [];
  page.on("request", (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith("data:")) foreign.push(request.url());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => {
    if (/Content Security Policy|Refused/.test(message.text())) complaints.push(message.text());
  });
  await page.addInitScript(prepare);
  await page.goto(url);
  await page.waitForSelector(".thread .about:not(:empty), .messages article");
}

export const shot = (name) => (shots ? page.screenshot({ path: `${shots}/${name}.png` }) : undefined);
export const composer = () => page.getByRole("textbox", { name: "Your question" });
export const answers = () => page.locator("article.assistant");

/** Fingers ask by the button: their Enter begins a line. */
export async function ask(question) {
  await composer().fill(question);
  const isTouch = await page.evaluate(() => matchMedia("(pointer: coarse)").matches);
  await (isTouch ? page.getByRole("button", { name: "Ask", exact: true }).tap() : composer().press("Enter"));
}
export async function askToTheEnd(question) {
  const count = await answers().count();
  await ask(question);
  await page.waitForFunction((wanted) => {
    const all = document.querySelectorAll("article.assistant");
    return all.length === wanted && all[wanted - 1].getAttribute("aria-busy") === "false";
  }, count + 1);
}

/** Answers the next questions with these events instead of the server's. */
export async function fake(events, { isCut = false } = {}) {
  const lines = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("");
  await page.route("**/v1/chat/completions", (route) => route.fulfill({ contentType: "text/event-stream", body: lines + (isCut ? "" : "data: [DONE]\n\n") }));
}

export const done = "[DONE]";
/** Answers the next questions with events as the function that it gives tells them. */
export async function fakeSlowly() {
  await page.evaluate(() => {
    const real = window.fetch;
    window.fetch = async (path, init) => {
      if (!String(path).endsWith("/chat/completions")) return real(path, init);
      const body = new ReadableStream({
        start: (controller) => {
          window.tell = (text) => controller.enqueue(new TextEncoder().encode(`data: ${text}\n\n`));
          init.signal.addEventListener("abort", () => controller.error(init.signal.reason));
        },
      });
      return new Response(body);
    };
  });
  return async (events) => {
    await page.waitForFunction(() => window.tell);
    await page.evaluate((texts) => texts.forEach((text) => window.tell(text)), events.map((each) => (each === done ? done : JSON.stringify(each))));
  };
}

export const said = (text) => [
  { choices: [{ index: 0, delta: { content: text }, finish_reason: null }] },
  { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] },
];
