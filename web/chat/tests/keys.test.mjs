// What keys, fingers and readers of screens find, in Chromium against a real `talon serve`. usage: node --test tests/, with the
// environment of chat_page.mjs
import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { answers, ask, askToTheEnd, composer, fake, fakeSlowly, open, page, said, shot } from "./chat_page.mjs";

const questions = () => page.locator("article.user .said").allTextContents();
const askButton = (name) => page.getByRole("button", { name, exact: true });

/** A key while letters are put together, as browsers tell of it and as Safari does. */
const compose = (field, key) =>
  field.evaluate((element, name) => {
    for (const way of [{ isComposing: true }, { keyCode: 229 }]) element.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true, ...way }));
  }, key);

describe("a question of several lines", () => {
  test("is asked by Enter, and has a line more by Shift and Enter", async () => {
    await open();
    await fake(said("Yes."));
    await composer().fill("One");
    await composer().press("Shift+Enter");
    await composer().pressSequentially("Two");
    assert.equal(await composer().inputValue(), "One\nTwo");
    await composer().press("Enter");
    await page.waitForSelector("article.assistant[aria-busy=false]");
    assert.deepEqual(await questions(), ["One\nTwo"]);
    await composer().fill("Three");
    await composer().press("Control+Enter");
    await answers().nth(1).waitFor();
    assert.deepEqual(await questions(), ["One\nTwo", "Three"]);
  });

  test("has a line more by Enter where fingers write, and the button asks", async () => {
    await open({ viewport: { width: 390, height: 780 }, hasTouch: true, isMobile: true });
    await fake(said("Yes."));
    await composer().fill("One");
    await composer().press("Enter");
    await composer().pressSequentially("Two");
    assert.equal(await composer().inputValue(), "One\nTwo");
    assert.equal(await page.locator("article").count(), 0);
    await shot("phone-lines");
    await askButton("Ask").tap();
    await page.waitForSelector("article.assistant[aria-busy=false]");
    assert.deepEqual(await questions(), ["One\nTwo"]);
    await page.getByRole("button", { name: "Edit and ask again" }).tap();
    const area = page.getByRole("textbox", { name: "Edit the question" });
    await area.fill("One\nTwo");
    await area.press("Enter");
    await area.pressSequentially("Three");
    assert.equal(await area.inputValue(), "One\nTwo\nThree");
    await askButton("Ask again").tap();
    await page.waitForFunction(() => document.querySelector("article.user .said").textContent === "One\nTwo\nThree");
  });

  test("is not asked, nor is anything stopped or left, by keys that put letters together", async () => {
    await open();
    await fake(said("Yes."));
    await askToTheEnd("One?");
    await page.locator("article.user").hover();
    await page.getByRole("button", { name: "Edit and ask again" }).click();
    const area = page.getByRole("textbox", { name: "Edit the question" });
    for (const key of ["Enter", "Escape"]) await compose(area, key);
    assert.ok(await area.isVisible());
    await area.press("Escape");
    const tell = await fakeSlowly();
    await ask("Two?");
    await tell([said("We")[0]]);
    await composer().fill("に");
    for (const key of ["Enter", "Escape"]) await compose(composer(), key);
    assert.equal(await answers().last().getAttribute("aria-busy"), "true");
    assert.equal(await composer().inputValue(), "に");
    assert.equal(await composer().evaluate((element) => element === document.activeElement), true);
    await composer().press("Escape");
    await page.waitForSelector("article.assistant:last-child[aria-busy=false]");
    await compose(composer(), "Enter");
    assert.equal(await answers().count(), 2);
  });
});

describe("the focus", () => {
  beforeEach(() => open());
  const focused = (wanted) => page.waitForFunction((selector) => document.activeElement?.matches(selector), wanted);

  test("stays with a conversation that is opened, and goes to the next thing when it is deleted", async () => {
    await fake(said("Yes."));
    await askToTheEnd("One?");
    await askButton("New conversation").click();
    await askToTheEnd("Two?");
    await askButton("One?").press("Enter");
    await focused(".sidebar .open[aria-current]");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "One?");
    await askButton("Delete “One?”").press("Enter");
    await askButton("Delete").press("Enter");
    await focused(".sidebar .begin");
  });

  test("stays with an answer whose button did its work", async () => {
    const timings = { prompt_n: 9, cache_n: 0, prompt_ms: 1, predicted_n: 2, predicted_per_second: 100, draft_n: 0, draft_n_accepted: 0 };
    await fake([...said("Yes."), { choices: [], timings, talon: {} }]);
    await askToTheEnd("One?");
    await page.getByRole("button", { name: "Without drafts" }).press("Enter");
    await page.locator(".verdict").waitFor();
    await focused("article.assistant");
    await page.getByRole("button", { name: "Answer again" }).press("Enter");
    await page.getByRole("button", { name: "Without drafts" }).waitFor();
    await focused("article.assistant");
  });

  test("stays where something was copied, also without https", async () => {
    await fake(said("Yes."));
    await askToTheEnd("One?");
    await page.evaluate(() => (navigator.clipboard.writeText = () => Promise.reject(new Error("closed"))));
    await page.getByRole("button", { name: "Copy answer" }).press("Enter");
    await page.waitForFunction(() => document.querySelector("body > [role=status]").textContent === "Copied.");
    await focused("[aria-label='Copy answer']");
  });

  test("goes to the next question after an edit, and back when the server at work is closed", async () => {
    await fake(said("Yes."));
    await askToTheEnd("One?");
    await composer().press("ArrowUp");
    await page.getByRole("textbox", { name: "Edit the question" }).press("Enter");
    await focused(".composer textarea");
    await page.getByRole("button", { name: /The server at work/ }).press("Enter");
    await page.getByRole("complementary").getByRole("button", { name: "Close" }).press("Enter");
    await focused("[aria-label^='The server at work']");
  });
});

describe("a tablet", () => {
  test("shows what elsewhere a pointer brings up", async () => {
    await open({ viewport: { width: 1000, height: 800 }, hasTouch: true, isMobile: true });
    await fake(said("Yes."));
    await askToTheEnd("One?");
    for (const part of [".user .tools", ".sidebar li > .ghost"]) assert.equal(await page.locator(part).first().evaluate((element) => getComputedStyle(element).opacity), "1", part);
  });
});

describe("a reader of screens", () => {
  beforeEach(() => open());
  const heard = () => page.locator("body > [role=status]").textContent();

  test("hears the end of each answer, and that something was copied", async () => {
    await fake(said("Yes."));
    await askToTheEnd("One?");
    const first = await heard();
    assert.equal(first.trim(), "Answer complete.");
    await askToTheEnd("Two?");
    const second = await heard();
    assert.equal(second.trim(), "Answer complete.");
    assert.notEqual(second, first, "what does not change is not heard");
    await page.getByRole("button", { name: "Copy answer" }).last().click();
    await page.waitForFunction(() => document.querySelector("body > [role=status]").textContent === "Copied.");
  });

  test("knows on a phone whether the list is open", async () => {
    await open({ viewport: { width: 390, height: 780 }, hasTouch: true, isMobile: true });
    const menu = page.getByRole("button", { name: "Conversations" });
    assert.equal(await menu.getAttribute("aria-expanded"), "false");
    await menu.tap();
    assert.equal(await menu.getAttribute("aria-expanded"), "true");
    await page.waitForTimeout(350);
    await page.getByRole("button", { name: "Close the list" }).press("Enter");
    assert.equal(await menu.getAttribute("aria-expanded"), "false");
    assert.equal(await menu.evaluate((element) => element === document.activeElement), true);
  });

  test("and an eye find words that stand out from their ground", async () => {
    for (const colorScheme of ["light", "dark"]) {
      await open({ colorScheme });
      const contrasts = await page.evaluate(() => {
        const light = (colour) => {
          const parts = colour.match(/[\d.]+/g).slice(0, 3).map((part) => Number(part) / 255);
          const [r, g, b] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const ground = light(getComputedStyle(document.body).backgroundColor);
        const colours = [getComputedStyle(document.querySelector(".about")).color, getComputedStyle(document.querySelector(".composer textarea"), "::placeholder").color];
        return colours.map(light).map((ink) => (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05));
      });
      assert.ok(contrasts.every((each) => each >= 4.5), `${colorScheme}: ${contrasts}`);
    }
  });
});
