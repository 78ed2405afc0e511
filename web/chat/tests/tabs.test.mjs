// Two tabs with the conversations of one browser, in Chromium against a real `talon serve`. usage: node --test tests/, with the
// environment of chat_page.mjs
import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { ask, askToTheEnd, complaints, done, fake, fakeSlowly, open, page, said, url } from "./chat_page.mjs";

const list = (tab) => tab.getByRole("navigation", { name: "Conversations" });
const titles = (tab) => list(tab).locator("li .open").allTextContents();
const hasTitles = (tab, wanted) =>
  tab.waitForFunction((all) => [...document.querySelectorAll(".sidebar li .open")].map((each) => each.textContent).join() === all.join(), wanted);
/** Waits until `wanted` is what was said in the conversation that a tab shows. */
const hasTexts = (tab, wanted) =>
  tab.waitForFunction(
    (all) => [...document.querySelectorAll(".messages article")].map((each) => each.querySelector(".said, .prose").textContent.trim()).join() === all.join(),
    wanted,
  );
const isThere = (tab) => tab.waitForSelector(".thread .about:not(:empty), .messages article");

/** Another tab, whose questions are answered with `text`. */
async function another(text) {
  const tab = await page.context().newPage();
  const lines = said(text).map((event) => `data: ${JSON.stringify(event)}\n\n`).join("");
  await tab.route("**/v1/chat/completions", (route) => route.fulfill({ contentType: "text/event-stream", body: `${lines}data: [DONE]\n\n` }));
  tab.on("pageerror", (error) => complaints.push(String(error)));
  await tab.goto(url);
  await isThere(tab);
  return tab;
}

async function askIn(tab, question) {
  const field = tab.getByRole("textbox", { name: "Your question" });
  await field.fill(question);
  await field.press("Enter");
}

async function remove(tab, title) {
  await list(tab).locator("li", { hasText: title }).hover();
  await list(tab).getByRole("button", { name: `Delete “${title}”` }).click();
  await list(tab).getByRole("button", { name: "Delete", exact: true }).click();
}

/** Another tab goes on with the only conversation, of which this one hears nothing yet. `versions`: of those that it knew. */
const goOnUnheard = (versions) =>
  page.evaluate((known) => {
    const key = Object.keys(localStorage).find((name) => name.startsWith("talon-chat-"));
    const found = JSON.parse(localStorage.getItem(key));
    found.messages.push({ role: "user", text: "From afar." }, { role: "assistant", text: "Noted.", finish: "stop" });
    found.versions = [...(known ?? found.versions), "afar"];
    localStorage.setItem(key, JSON.stringify(found));
    return key;
  }, versions);

describe("two tabs", () => {
  beforeEach(() => open());
  const river = ["Name a river.", "The Rhine."];
  const mountain = ["Name a mountain.", "Mont Blanc."];
  const isParted = () => page.locator(".messages .note", { hasText: "kept beside it" }).waitFor();

  test("what is asked in one is there in the other, and stays when that asks, too", async () => {
    await fake(said("The Rhine."));
    await askToTheEnd("Name a river.");
    const other = await another("Mont Blanc.");
    await hasTexts(other, river);
    await askToTheEnd("Name a river.");
    await hasTexts(other, [...river, ...river]);
    await askIn(other, "Name a mountain.");
    const all = [...river, ...river, ...mountain];
    await hasTexts(page, all);
    for (const tab of [page, other]) {
      await tab.reload();
      await hasTexts(tab, all);
      assert.deepEqual(await titles(tab), ["Name a river."]);
    }
    assert.deepEqual(complaints, []);
  });

  test("trees stay where another tab goes on", async () => {
    const tree = { texts: ["?", "The", " Rhine"], parents: [-1, 0, 1], p: [1, 0.9, 0.8], path: [0, 1, 2] };
    const round = { texts: ["The", " Rhine", "."], bytes: [3, 6, 1], accepted: 2, draft_ms: 1, check_ms: 2, tree };
    const [first, last] = said("The Rhine.");
    first.choices[0].talon = { rounds: [round] };
    await fake([first, last]);
    await askToTheEnd("Name a river.");
    const other = await another("Mont Blanc.");
    await askIn(other, "Name a mountain.");
    await hasTexts(page, [...river, ...mountain]);
    await page.locator(".prose .token.kept").first().hover();
    await page.getByRole("tooltip").waitFor();
    assert.equal(await page.getByRole("tooltip").locator("svg.tree").count(), 1);
  });

  test("an answer that comes while another tab goes on is kept beside that", async () => {
    const other = await another("Mont Blanc.");
    const tell = await fakeSlowly();
    await ask("Name a river.");
    await tell([said("The Rhi")[0]]);
    await hasTitles(other, ["Name a river."]);
    await list(other).getByRole("button", { name: "Name a river.", exact: true }).click();
    assert.match(await other.locator("article.assistant").textContent(), /Not complete: .* another tab/);
    await askIn(other, "Name a mountain.");
    const beside = ["Name a river.", "", ...mountain];
    await hasTexts(other, beside);
    await other.waitForSelector("article.assistant:last-child[aria-busy=false]");
    await tell([...said("ne."), done]);
    await isParted();
    for (const tab of [page, other]) await hasTitles(tab, ["Name a river. (2)", "Name a river."]);
    await page.reload();
    await hasTexts(page, river);
    await list(page).getByRole("button", { name: "Name a river.", exact: true }).click();
    await hasTexts(page, beside);
    assert.deepEqual(complaints, []);
  });

  test("one that has just come back from afar goes on where the other is", async () => {
    await fake(said("The Rhine."));
    await askToTheEnd("Name a river.");
    await goOnUnheard();
    await ask("Name a river.");
    await hasTexts(page, [...river, "From afar.", "Noted.", ...river]);
    assert.deepEqual(await titles(page), ["Name a river."]);
  });

  test("an answer that is asked for again where another tab went on is kept beside that", async () => {
    await fake(said("The Rhine."));
    await askToTheEnd("Name a river.");
    await goOnUnheard();
    await page.getByRole("button", { name: "Answer again" }).click();
    await isParted();
    await hasTitles(page, ["Name a river. (2)", "Name a river."]);
    await hasTexts(page, river);
    await list(page).getByRole("button", { name: "Name a river.", exact: true }).click();
    await hasTexts(page, [...river, "From afar.", "Noted."]);
  });

  test("what one wrote over without knowing it is stored again", async () => {
    await fake(said("The Rhine."));
    await askToTheEnd("Name a river.");
    const key = await goOnUnheard(["older"]);
    await page.evaluate((name) => dispatchEvent(new StorageEvent("storage", { key: name })), key);
    await isParted();
    await page.reload();
    await hasTitles(page, ["Name a river. (2)", "Name a river."]);
    await hasTexts(page, river);
  });

  test("a question that is being edited stays, and so does what another tab made of the rest", async () => {
    await fake(said("The Rhine."));
    await askToTheEnd("Name a river.");
    const other = await another("Mont Blanc.");
    await page.locator("article.user").hover();
    await page.getByRole("button", { name: "Edit and ask again" }).click();
    const area = page.getByRole("textbox", { name: "Edit the question" });
    await area.fill("Name a large river.");
    await askIn(other, "Name a mountain.");
    await hasTexts(other, [...river, ...mountain]);
    await page.waitForTimeout(300);
    assert.equal(await area.inputValue(), "Name a large river.");
    await area.press("Enter");
    await hasTexts(page, ["Name a large river.", "The Rhine."]);
    await hasTitles(page, ["Name a large river. (2)", "Name a river."]);
  });

  test("one that is deleted in one is gone in the other, which says so and keeps a question that was begun", async () => {
    await fake(said("The Rhine."));
    await askToTheEnd("Name a river.");
    const other = await another("Mont Blanc.");
    const field = other.getByRole("textbox", { name: "Your question" });
    await field.fill("And the");
    await remove(page, "Name a river.");
    await other.getByText("was deleted in another tab").waitFor();
    assert.equal(await field.inputValue(), "And the");
    assert.deepEqual(await titles(other), []);
  });

  test("one that is deleted in one while the other answers in it is there again", async () => {
    const other = await another("Mont Blanc.");
    const tell = await fakeSlowly();
    await ask("Name a river.");
    await tell([said("The Rhi")[0]]);
    await hasTitles(other, ["Name a river."]);
    await remove(other, "Name a river.");
    await tell([...said("ne."), done]);
    await page.waitForSelector("article.assistant[aria-busy=false]");
    await hasTitles(other, ["Name a river."]);
    await page.reload();
    await hasTexts(page, river);
  });

  test("settings of one do not undo those of the other", async () => {
    const other = await another("Mont Blanc.");
    await other.getByRole("button", { name: /Settings/ }).click();
    await other.getByLabel("Key of the server").fill("secret");
    await other.getByLabel("System prompt").fill("Be brief.");
    await page.getByRole("button", { name: /^Theme/ }).click();
    await page.getByRole("button", { name: /Settings/ }).click();
    await page.getByRole("slider", { name: "Temperature" }).press("ArrowRight");
    const [settings, preferences] = await page.evaluate(() => ["talon-settings", "talon-preferences"].map((name) => JSON.parse(localStorage.getItem(name))));
    assert.deepEqual([preferences.key, preferences.theme], ["secret", "light"]);
    assert.deepEqual([settings.system, settings.temperature], ["Be brief.", 0.05]);
  });

  test("settings of pictures of one do not undo those of the other, and each draws with its own", async () => {
    const other = await another("Mont Blanc.");
    for (const tab of [page, other]) await tab.getByRole("button", { name: "Draw (d)" }).click();
    const words = page.getByRole("combobox", { name: "What to draw" });
    await other.getByRole("combobox", { name: "Style" }).selectOption("line");
    await other.getByRole("spinbutton", { name: "Pictures" }).fill("2");
    await other.getByRole("slider", { name: "Guidance" }).fill("5");
    await words.fill("dog");
    await page.getByRole("spinbutton", { name: "Seed" }).fill("9");
    const { style, count, guidance, prompt, seed } = await page.evaluate(() => JSON.parse(localStorage.getItem("talon-drawing")));
    assert.deepEqual([style, count, guidance, prompt, seed], ["line", 2, 5, "dog", "9"]);
    await page.route("**/v1/images/generations", (route) => route.fulfill({ contentType: "text/event-stream", body: "" }));
    const request = page.waitForRequest("**/v1/images/generations");
    await words.press("Enter");
    const body = (await request).postDataJSON();
    assert.deepEqual([body.prompt, body.n, body.seed, body.guidance], ["dog flat", 4, 9, 2]);
    await page.reload();
    await page.waitForFunction(() => document.querySelector(".knobs input")?.value === "2");
    assert.deepEqual(complaints, []);
  });
});
