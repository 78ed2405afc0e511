// The view of models that draw, in Chromium against real servers. usage: node --test tests/, with in the environment
//   DRAW_URL    of a server whose only model, "icons", draws by words and a style
//   TALON_URL   of one that serves a chat model and "icons"
//   CHROMIUM, SHOTS   as in page.test.mjs
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { after, before, beforeEach, describe, test } from "node:test";
import { chromium } from "playwright-core";

const url = process.env.DRAW_URL;
const shots = process.env.SHOTS;
const phone = { width: 390, height: 780 };
let browser;
let page;
let complaints; // of the page itself, and requests to others than the server

before(async () => {
  if (shots) mkdirSync(shots, { recursive: true });
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
});
after(() => browser?.close());

async function open(options = {}, address = url) {
  await page?.context().close();
  const context = await browser.newContext({ viewport: { width: 1180, height: 820 }, ...options });
  page = await context.newPage();
  complaints = [];
  page.on("request", (request) => {
    if (!request.url().startsWith(address) && !request.url().startsWith("data:")) complaints.push(request.url());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => {
    if (/Content Security Policy|Refused/.test(message.text())) complaints.push(message.text());
  });
  await page.addInitScript(() => {
    localStorage.getItem("talon-drawing") ?? localStorage.setItem("talon-drawing", JSON.stringify({ count: 3, seed: "7", style: "round" }));
  });
  await page.goto(address);
}

const shot = (name) => (shots ? page.screenshot({ path: `${shots}/${name}.png` }) : undefined);
const prompt = () => page.getByRole("combobox", { name: "What to draw" });
const series = () => page.locator(".series");
const pictures = () => page.locator(".series .picture");

async function draw(words) {
  const count = await series().count();
  await prompt().fill(words);
  await prompt().press("Enter");
  await page.waitForFunction((wanted) => {
    const all = document.querySelectorAll(".series");
    return all.length === wanted && all[wanted - 1].getAttribute("aria-busy") === "false";
  }, count + 1);
}

/** The request of what is drawn next. */
const asked = () => page.waitForRequest("**/v1/images/generations").then((request) => request.postDataJSON());
/** Drafts however busy the machine is. */
const drafted = () =>
  page.route("**/v1/images/generations", (route) => {
    const body = route.request().postDataJSON();
    return route.continue({ postData: JSON.stringify({ ...body, talon: { policy: "fixed", ...body.talon } }) });
  });
const sources = () => page.locator(".series .picture img").evaluateAll((images) => images.map((image) => image.src));

describe("the drawing view", () => {
  beforeEach(async () => {
    await open();
    await prompt().waitFor();
  });

  test("is what a server that only draws shows, and says what draws", async () => {
    assert.match(await page.locator(".studio .about").textContent(), /icons · 64 by 64 pixels, 1024 cells · guesses by jacobi/);
    assert.equal(await page.getByRole("textbox", { name: "Your question" }).isVisible(), false);
    assert.equal(await page.getByRole("button", { name: "Chat (d)" }).count(), 0);
    assert.deepEqual(await page.locator(".studio .chips button").allTextContents(), ["cat flat", "dog round", "red line", "tree flat"]);
    await shot("draw-welcome");
    assert.deepEqual(complaints, []);
  });

  test("draws what the server draws, with its settings", async () => {
    const request = asked();
    await draw("red cat");
    const body = await request;
    assert.equal(body.prompt, "red cat round");
    assert.deepEqual([body.n, body.seed, body.guidance, body.temperature, body.stream], [3, 7, 2, 1, true]);
    const reply = await fetch(`${url}/v1/images/generations`, { method: "POST", body: JSON.stringify({ prompt: "red cat round", n: 3, seed: 7 }) });
    const wanted = (await reply.json()).data.map((picture) => `data:image/png;base64,${picture.b64_json}`);
    assert.deepEqual(await sources(), wanted);
    assert.match(await page.locator(".series .figures").textContent(), /3,072 cells · [\d,]+ steps · [\d.]+ a step · [\d.]+ s/);
    await page.waitForTimeout(400);
    await shot("draw-series");
    assert.deepEqual(complaints, []);
  });

  test("a style that is written counts", async () => {
    const request = asked();
    await draw("moon flat");
    assert.equal((await request).prompt, "moon flat");
  });

  test("pictures grow, and stop", async () => {
    await page.evaluate(() => {
      window.seen = new Set();
      new MutationObserver(() => {
        for (const image of document.querySelectorAll(".growing img")) {
          if (!image.style.clipPath) continue;
          window.seen.add(image.style.clipPath);
          window.busy = image.closest(".series").getAttribute("aria-busy");
        }
      }).observe(document.body, { subtree: true, attributes: true, childList: true });
    });
    await page.getByRole("spinbutton", { name: "Pictures" }).fill("16");
    const figures = () => page.locator(".series .figures").last().textContent();
    for (let tries = 1; tries === 1 || (tries <= 5 && !/stopped/.test(await figures())); ++tries) {
      // On a busy machine all may be drawn before the page shows the first preview.
      await page.evaluate(() => window.seen.clear());
      await prompt().fill("red cat");
      await prompt().press("Enter");
      await page.waitForFunction(() => window.seen.size >= 1); // a fast model has few previews
      assert.equal(await page.evaluate(() => window.busy), "true");
      await shot("draw-growing");
      await page.keyboard.press("Escape");
      await page.waitForSelector(".series:last-of-type[aria-busy=false]");
    }
    assert.match(await figures(), /of 16,384 cells .* stopped/);
    const load = async () => (await (await fetch(`${url}/v1/load`)).json()).server_load;
    for (let i = 0; i < 40 && (await load()) > 0; ++i) await page.waitForTimeout(50);
    assert.equal(await load(), 0, "the server goes on");
  });

  test("cells that were guessed are tinted, by a switch", async () => {
    await drafted();
    await draw("red cat");
    const cells = await page.locator(".series .tints").first().evaluate((canvas) => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      const kinds = { own: 0, guessed: 0, clear: 0 };
      for (let i = 0; i < data.length; i += 4) ++kinds[data[i + 3] === 0 ? "clear" : data[i + 1] > data[i] ? "guessed" : "own"];
      return kinds;
    });
    assert.equal(cells.clear, 0);
    assert.ok(cells.guessed > 0 && cells.own > 0, JSON.stringify(cells));
    const seen = () => page.locator(".series .tints").first().evaluate((canvas) => getComputedStyle(canvas).opacity);
    await page.waitForTimeout(350);
    assert.equal(await seen(), "1");
    await page.keyboard.press("Escape");
    await page.keyboard.press("t");
    await page.waitForTimeout(350);
    assert.equal(await seen(), "0");
  });

  test("the same without drafts are the same pictures, and both numbers are told", async () => {
    await drafted();
    await draw("red cat");
    await page.getByRole("button", { name: "Without drafts" }).click();
    const verdict = page.locator(".verdict");
    await verdict.waitFor();
    assert.match(await verdict.textContent(), /The same pictures, pixel for pixel; [\d.]+ times fewer steps/);
    assert.match(await page.locator(".comparison").textContent(), /3,072 steps/);
    await shot("draw-compared");
  });

  test("pictures that differ are told", async () => {
    await draw("red cat");
    await page.route("**/v1/images/generations", async (route) => {
      const body = { ...route.request().postDataJSON(), seed: 99 };
      await route.continue({ postData: JSON.stringify(body) });
    });
    await page.keyboard.press("Escape");
    await page.keyboard.press("c");
    await page.locator(".verdict.unequal").waitFor();
  });

  test("a comparison that fails says why, and can be tried again", async () => {
    await draw("red cat");
    const busy = { status: 429, contentType: "application/json", body: '{"error": {"message": "queue: expected room, found none"}}' };
    await page.route("**/v1/images/generations", (route) => route.fulfill(busy));
    await page.getByRole("button", { name: "Without drafts" }).click();
    assert.match(await page.getByRole("alert").textContent(), /The server is busy.*queue/);
    assert.match(await page.locator(".series .figures").textContent(), /^3,072 cells/);
    await page.unroute("**/v1/images/generations");
    await page.getByRole("button", { name: "Try again" }).click();
    await page.locator(".verdict").waitFor();
    assert.equal(await page.getByRole("alert").count(), 0);
    assert.equal(await series().count(), 1);
  });

  test("is used by keys: prompt, pictures, another seed, a large one", async () => {
    await page.waitForFunction(() => document.activeElement?.getAttribute("aria-label") === "What to draw");
    await draw("red cat");
    await page.keyboard.press("Escape");
    await page.keyboard.press("r");
    await page.waitForFunction(() => document.querySelectorAll(".series[aria-busy=false]").length === 2);
    const all = await sources();
    assert.notEqual(all[0], all[3], "another seed");
    await pictures().nth(3).focus();
    await page.keyboard.press("ArrowRight");
    assert.equal(await pictures().nth(4).evaluate((element) => element === document.activeElement), true);
    await page.keyboard.press("Enter");
    const large = page.getByRole("dialog", { name: "Picture" });
    await large.waitFor();
    assert.equal(await large.locator("img").getAttribute("src"), all[4]);
    assert.match(await large.getByRole("link", { name: "Save" }).getAttribute("download"), /^picture-\d+\.png$/);
    await shot("draw-large");
    await page.keyboard.press("ArrowRight");
    assert.equal(await large.locator("img").getAttribute("src"), all[5]);
    for (let i = 0; i < 2; ++i) await page.keyboard.press("ArrowLeft");
    assert.equal(await large.locator("img").getAttribute("src"), all[3]);
    await large.getByRole("button", { name: /The next/ }).press("Enter");
    await page.keyboard.press("ArrowLeft");
    assert.equal(await large.locator("img").getAttribute("src"), all[3]);
    await page.keyboard.press("Escape");
    await large.waitFor({ state: "hidden" });
    // The browser gives the focus back after it has closed the dialog.
    await page.waitForFunction((element) => element === document.activeElement, await pictures().nth(3).elementHandle());
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    assert.match(await page.getByRole("dialog", { name: "Keys" }).textContent(), /again with another seed/);
    await page.keyboard.press("Escape");
    await page.keyboard.press("/");
    assert.equal(await prompt().evaluate((element) => element === document.activeElement), true);
    await page.getByRole("button", { name: "Remove" }).last().click();
    assert.equal(await series().count(), 1);
  });

  test("words that the model does not know are named", async () => {
    await draw("red caat");
    const alert = page.getByRole("alert");
    assert.match(await alert.textContent(), /The server refused this.*such as cat/s);
    await shot("draw-refused");
    await page.getByRole("button", { name: "Try again" }).waitFor();
  });

  test("settings are kept", async () => {
    await page.getByRole("slider", { name: "Guidance" }).fill("5");
    await page.getByRole("slider", { name: "Temperature" }).fill("0.5");
    await page.getByRole("combobox", { name: "Drafter" }).fill("grid");
    await page.getByRole("combobox", { name: "Style" }).selectOption("line");
    await page.reload();
    await prompt().waitFor();
    const request = asked();
    await draw("dog");
    const body = await request;
    assert.deepEqual([body.prompt, body.guidance, body.temperature, body.talon], ["dog line", 5, 0.5, { drafter: "grid" }]);
  });

  test("a stream that breaks off says so, and a key is asked for", async () => {
    await page.route("**/v1/images/generations", (route) => route.fulfill({ contentType: "text/event-stream", body: "" }));
    await draw("red cat");
    assert.match(await page.getByRole("alert").textContent(), /broke off/);
    assert.equal(await page.locator("body > [role=status]").textContent(), "", "nobody stopped it");
    await page.unroute("**/v1/images/generations");
    await page.route("**/v1/images/generations", (route) => route.fulfill({ status: 401, contentType: "application/json", body: '{"error": {"message": "api key"}}' }));
    await draw("red cat");
    await page.getByRole("button", { name: "Enter the key" }).click();
    await page.getByLabel("Key of the server").fill("secret");
    await page.getByRole("button", { name: "Done" }).click();
    const request = page.waitForRequest("**/v1/images/generations");
    await page.keyboard.press("r");
    assert.equal((await request).headers().authorization, "Bearer secret");
  });

  test("fits a phone, and is dark in the dark", async () => {
    await open({ viewport: phone, hasTouch: true, isMobile: true, deviceScaleFactor: 2, colorScheme: "dark" });
    await prompt().waitFor();
    await draw("red cat");
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0);
    const knobs = () => page.locator(".knobs .field").evaluateAll((all) => all.filter((field) => field.scrollWidth > field.clientWidth).map((field) => field.textContent));
    assert.deepEqual(await knobs(), []);
    await page.setViewportSize({ width: 320, height: 600 });
    assert.deepEqual(await knobs(), []);
    await page.setViewportSize({ width: 740, height: 360 });
    assert.ok((await page.locator(".gallery").boundingBox()).height > 150, "settings leave no room for pictures");
    await page.setViewportSize(phone);
    const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    assert.ok(Math.max(...ground.match(/\d+/g).slice(0, 3).map(Number)) < 60);
    await page.waitForTimeout(400);
    await shot("draw-phone-dark");
    await pictures().first().tap();
    await page.getByRole("dialog", { name: "Picture" }).waitFor();
    await shot("draw-phone-large");
  });
});

describe("a server that writes and draws", () => {
  test("has both views, and a key and a button between them", async () => {
    await open({}, process.env.TALON_URL);
    await page.waitForSelector(".thread .about:not(:empty)");
    const question = page.getByRole("textbox", { name: "Your question" });
    assert.ok(await question.isVisible());
    await page.getByRole("button", { name: "Draw (d)" }).click();
    await prompt().waitFor();
    assert.equal(await question.isVisible(), false);
    const request = asked();
    await draw("red cat");
    assert.equal((await request).model, "icons");
    await page.reload();
    await prompt().waitFor();
    await page.keyboard.press("Escape");
    await page.keyboard.press("d");
    assert.ok(await question.isVisible());
    assert.deepEqual(complaints, []);
  });

  test("says of each view what answers there, with a conversation that was kept, too", async () => {
    await open({}, process.env.TALON_URL);
    await page.evaluate(() => {
      const messages = [{ role: "user", text: "Hello." }];
      localStorage.setItem("talon-chat-kept", JSON.stringify({ id: "kept", title: "Hello.", changed: 1, messages }));
    });
    await page.reload();
    await page.locator(".messages article").waitFor();
    await page.getByRole("button", { name: "Draw (d)" }).click();
    await page.getByRole("button", { name: "Settings (s)" }).click();
    await page.getByLabel("Key of the server").fill("secret");
    assert.match(await page.locator(".studio .about").textContent(), /^icons · 64 by 64 pixels/);
  });

  test("asks the model that writes, also after its settings are as they were", async () => {
    await open({}, process.env.TALON_URL);
    await page.route("**/v1/models", async (route) => {
      const reply = await route.fetch();
      const { data, ...rest } = await reply.json();
      await route.fulfill({ response: reply, json: { ...rest, data: data.reverse() } });
    });
    const props = await (await fetch(`${url}/props`)).json();
    await page.route("**/props", (route) => route.fulfill({ json: props }));
    await page.reload();
    await page.getByRole("button", { name: "Draw (d)" }).waitFor();
    await page.waitForFunction(() => document.querySelector(".thread .about").textContent === "smollm2");
    await page.getByRole("button", { name: "Settings (s)" }).click();
    const model = page.getByLabel("Model");
    const isListed = () => page.waitForFunction(() => document.querySelector("[name=model]").selectedOptions[0]?.text === "smollm2");
    await isListed();
    await page.getByRole("button", { name: "As they were" }).click();
    await isListed();
    assert.equal(await model.inputValue(), "smollm2");
    await page.getByRole("button", { name: "Done" }).click();
    const request = page.waitForRequest("**/v1/chat/completions");
    await page.getByRole("textbox", { name: "Your question" }).fill("Hello.");
    await page.keyboard.press("Enter");
    assert.equal((await request).postDataJSON().model, "smollm2");
  });
});
