// The page in Chromium against a real `talon serve`. usage: node --test tests/, with the environment of chat_page.mjs
import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { answers, ask, askToTheEnd, complaints, composer, done, fake, fakeSlowly, foreign, open, page, said, shot, url } from "./chat_page.mjs";

const phone = { width: 390, height: 780 };

const ended = (reason) => ({ choices: [{ index: 0, delta: {}, finish_reason: reason }] });

describe("the page", () => {
  beforeEach(() => open());

  test("greets, says what answers, and asks nobody but its server", async () => {
    assert.match(await page.locator(".thread .about").textContent(), /guesses by/);
    await shot("welcome");
    await askToTheEnd("Name three colours.");
    assert.deepEqual(foreign, []);
    assert.deepEqual(complaints, []);
  });

  test("shows what the server answers, with what was guessed tinted", async () => {
    await askToTheEnd("Write a haiku about the sea.");
    const reply = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      body: JSON.stringify({ messages: [{ role: "user", content: "Write a haiku about the sea." }], temperature: 0, seed: 7, max_tokens: 60 }),
    });
    const wanted = (await reply.json()).choices[0].message.content;
    const squeeze = (text) => text.replace(/\s+/g, " ").trim();
    assert.equal(squeeze(await answers().locator(".prose").innerText()), squeeze(wanted));
    const kept = page.locator(".prose .token.kept");
    assert.ok((await kept.count()) > 3);
    const ground = () => kept.first().evaluate((element) => getComputedStyle(element).backgroundColor);
    await page.waitForTimeout(300);
    const tinted = await ground();
    await shot("answer");
    await page.keyboard.press("Escape");
    await page.keyboard.press("t");
    await page.waitForTimeout(300);
    assert.notEqual(await ground(), tinted);
    await shot("answer-no-tint");
  });

  test("writes while the answer comes, and stops", async () => {
    await page.evaluate(() => localStorage.setItem("talon-settings", JSON.stringify({ seed: "7", temperature: 0, maxTokens: "" })));
    await page.reload();
    await ask("Write a very long story about a fox, a crow and a river. Never stop.");
    await page.waitForFunction(() => (document.querySelector("article.assistant .prose")?.textContent ?? "").length > 80);
    assert.equal(await answers().getAttribute("aria-busy"), "true");
    await shot("streaming");
    await page.keyboard.press("Escape");
    await page.waitForSelector("article.assistant[aria-busy=false]");
    assert.match(await answers().textContent(), /Stopped\./);
    const load = async () => (await (await fetch(`${url}/v1/load`)).json()).server_load;
    for (let i = 0; i < 40 && (await load()) > 0; ++i) await page.waitForTimeout(50);
    assert.equal(await load(), 0, "the server goes on");
  });

  test("shows the tree of a round under the pointer and by arrow keys", async () => {
    await askToTheEnd("List five uses for an old newspaper.");
    const kept = page.locator(".prose .token.kept");
    await kept.nth((await kept.count()) >> 1).hover();
    const card = page.getByRole("tooltip");
    await card.waitFor();
    assert.match(await card.textContent(), /Pass \d+ of \d+/);
    assert.ok((await card.locator("svg.tree .node").count()) > 1);
    assert.ok((await card.locator("svg.tree .node.kept").count()) > 0);
    await shot("tree");
    await page.mouse.move(5, 5);
    await card.waitFor({ state: "hidden" });
    await answers().focus();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowRight");
    assert.match(await card.textContent(), /Pass 2 of/);
    await page.keyboard.press("Escape");
    await card.waitFor({ state: "hidden" });
  });

  test("asks the same without drafts and finds the same bytes", async () => {
    await askToTheEnd("Explain rain to a child.");
    await page.getByRole("button", { name: "Without drafts" }).click();
    const verdict = page.locator(".verdict");
    await verdict.waitFor();
    assert.match(await verdict.textContent(), /The same [\d,.]+ bytes/);
    await shot("compared");
  });

  test("tells when the texts differ", async () => {
    await askToTheEnd("Explain snow to a child.");
    await fake([...said("Something else"), { choices: [], timings: { predicted_per_second: 100 }, talon: {} }]);
    await page.getByRole("button", { name: "Without drafts" }).click();
    await page.locator(".verdict.unequal").waitFor();
  });

  /** One event, and the round whose tokens it came with. */
  const event = (delta, texts, kept = 0) => {
    const round = { texts, bytes: texts.map((text) => Buffer.byteLength(text)), accepted: kept, draft_ms: 1, check_ms: 2 };
    return { choices: [{ index: 0, delta, finish_reason: null, talon: { rounds: [round] } }] };
  };
  const thinks = [event({ content: "" }, ["<think>"]), event({ reasoning_content: "They ask for" }, ["\n", "They", " ask", " for"], 3), event({ reasoning_content: " a sum." }, [" a", " sum", "."], 0)];
  const thought = () => page.locator("details.thought");

  test("shows a thought apart, with tokens of its own", async () => {
    await fake([...thinks, event({ content: "Four" }, ["</think>", "\n\n", "Four"], 2), event({ content: ", I say" }, [",", " I", " say", "<|im_end|>"], 2), ended("stop")]);
    await askToTheEnd("Two and two?");
    assert.equal(await answers().locator("> .prose").innerText(), "Four, I say");
    const tokens = (prose) => prose.locator(".token").evaluateAll((all) => all.map((each) => [each.textContent, Number(each.dataset.round), each.classList.contains("kept")]));
    assert.deepEqual(await tokens(answers().locator("> .prose")), [["Four", 3, false], [",", 4, true], [" I", 4, true], [" say", 4, false]]);
    assert.equal(await thought().evaluate((element) => element.open), false);
    await answers().focus();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowRight");
    assert.match(await page.getByRole("tooltip").textContent(), /Pass 2 of 5/);
    const [card, title] = [await page.getByRole("tooltip").boundingBox(), await thought().locator("summary").boundingBox()];
    assert.ok(Math.abs(card.x - title.x) < 60 && card.y + card.height > 60, "the card is away from the thought");
    await page.keyboard.press("Escape");
    await thought().locator("summary").focus();
    await page.keyboard.press("Enter");
    assert.equal(await thought().locator(".prose").innerText(), "They ask for a sum.");
    assert.deepEqual(await tokens(thought()), [["They", 1, true], [" ask", 1, true], [" for", 1, false], [" a", 2, false], [" sum", 2, false], [".", 2, false]]);
    await shot("thought");
    await page.getByRole("button", { name: "Copy answer" }).click();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "Four, I say");
    const request = page.waitForRequest("**/v1/chat/completions");
    await askToTheEnd("And three?");
    assert.deepEqual((await request).postDataJSON().messages[1], { role: "assistant", content: "Four, I say" });
    await page.reload();
    assert.equal(await thought().first().evaluate((element) => element.open), false);
    assert.match(await thought().first().textContent(), /They ask for a sum\./);
  });

  test("shows the thought of an answer that was cut before it began", async () => {
    await fake([...thinks, ended("length")]);
    await askToTheEnd("Two and two?");
    assert.equal(await thought().locator(".prose").innerText(), "They ask for a sum.");
    assert.match(await answers().textContent(), /Cut at the most tokens/);
  });

  test("opens a thought while it grows and closes it when the answer begins", async () => {
    const tell = await fakeSlowly();
    const isOpen = (open) => page.waitForFunction((wanted) => document.querySelector("details.thought")?.open === wanted, open);
    await ask("Two and two?");
    await tell(thinks);
    await isOpen(true);
    assert.equal(await thought().locator(".prose").innerText(), "They ask for a sum.");
    await shot("thought-grows");
    await tell([event({ content: "Four" }, ["</think>", "\n\n", "Four"])]);
    await isOpen(false);
    await thought().locator("summary").click();
    await tell([event({ content: "." }, ["."])]);
    await page.waitForFunction(() => document.querySelector("article.assistant > .prose").textContent.trim() === "Four.");
    await isOpen(true);
    await page.keyboard.press("Escape");
  });

  test("stays with the pass that arrow keys chose while they scroll a long answer", async () => {
    const words = Array.from({ length: 40 }, (_, i) => `Word ${i}.\n\n`);
    await fake([...words.map((word) => event({ content: word }, [word])), ended("stop")]);
    await askToTheEnd("Many words?");
    await answers().focus();
    for (let i = 0; i < 5; ++i) {
      await page.keyboard.press("ArrowRight");
      await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
    }
    const card = page.getByRole("tooltip");
    assert.match(await card.textContent(), /Pass 5 of 40/);
    await page.mouse.move(600, 300);
    await page.mouse.wheel(0, 200);
    await card.waitFor({ state: "hidden" });
  });

  test("finds the address of a link that comes behind it", async () => {
    const tell = await fakeSlowly();
    await ask("Where?");
    await tell([said("See [the page][1].\n\n")[0]]);
    await page.waitForFunction(() => document.querySelector("article.assistant .prose").textContent.includes("[1]"));
    await tell([...said("[1]: https://example.org\n"), done]);
    assert.equal(await answers().getByRole("link", { name: "the page" }).getAttribute("href"), "https://example.org");
  });

  test("leaves the answer alone when the edit of a question is given up", async () => {
    await fake(said("An apple."));
    await askToTheEnd("Name a fruit.");
    await page.locator("article.user").hover();
    await page.getByRole("button", { name: "Edit and ask again" }).click();
    const tell = await fakeSlowly();
    await ask("And another?");
    await tell([said("A pear")[0]]);
    const area = page.getByRole("textbox", { name: "Edit the question" });
    await area.press("Escape");
    await area.waitFor({ state: "hidden" });
    assert.equal(await answers().last().getAttribute("aria-busy"), "true");
    await page.keyboard.press("Escape");
    await page.waitForSelector("article.assistant:last-child[aria-busy=false]");
  });

  test("answers again, and takes an edited question", async () => {
    await askToTheEnd("Name a fruit.");
    await page.getByRole("button", { name: "Answer again" }).click();
    await page.waitForSelector("article.assistant[aria-busy=false] .figures");
    assert.equal(await answers().count(), 1);
    await page.locator("article.user").hover();
    await page.getByRole("button", { name: "Edit and ask again" }).click();
    const area = page.getByRole("textbox", { name: "Edit the question" });
    assert.equal(await area.inputValue(), "Name a fruit.");
    await area.fill("Name a bird.");
    await shot("editing");
    await area.press("Enter");
    await page.waitForSelector("article.assistant[aria-busy=false] .figures");
    assert.equal(await page.locator("article.user").count(), 1);
    assert.match(await page.locator("article.user").textContent(), /Name a bird\./);
  });

  test("keeps conversations in the browser, and forgets those that are deleted", async () => {
    await askToTheEnd("Name a river.");
    await page.getByRole("button", { name: "New conversation" }).click();
    await askToTheEnd("Name a mountain.");
    await page.reload();
    const list = page.getByRole("navigation", { name: "Conversations" });
    assert.deepEqual(await list.locator("li .open").allTextContents(), ["Name a mountain.", "Name a river."]);
    assert.ok((await page.locator(".prose .token.kept").count()) + (await page.locator(".prose .token").count()) > 0, "tints are kept");
    await list.getByRole("button", { name: "Name a river.", exact: true }).click();
    assert.match(await page.locator("article.user").textContent(), /river/);
    await list.locator("li", { hasText: "Name a river." }).hover();
    await list.getByRole("button", { name: "Delete “Name a river.”" }).click();
    await list.getByRole("button", { name: "Delete", exact: true }).click();
    await page.reload();
    assert.deepEqual(await list.locator("li .open").allTextContents(), ["Name a mountain."]);
  });

  test("copies an answer as it was written", async () => {
    await fake(said("A **bold** word."));
    await askToTheEnd("Be bold.");
    await page.getByRole("button", { name: "Copy answer" }).click();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "A **bold** word.");
  });

  test("sets Markdown and code, and lets no answer load or run anything", async () => {
    const text = [
      "## A heading\n\nSome *words*, `code` and [a link](https://example.org).\n",
      "1. one\n2. two\n   - nested\n\n> quoted\n",
      "| name | value |\n|---|---|\n| a | 1 |\n| b | 2 |\n",
      '```python\ndef turn(words):\n    return words[::-1]  # <script>alert(1)</script>\n```\n',
      '<img src="https://example.org/x.png" onerror="document.title=1"><script>document.title = "gone"</script>\n',
      "![picture](https://example.org/x.png) and [bad](javascript:alert(1))",
    ].join("\n");
    await fake(said(text));
    await askToTheEnd("Show me.");
    const prose = page.locator(".prose");
    assert.equal(await prose.locator("h2").textContent(), "A heading");
    assert.equal(await prose.locator("ol > li").count(), 2);
    assert.equal(await prose.locator("td").count(), 4);
    assert.equal(await prose.locator("img, script").count(), 0);
    assert.equal(await prose.locator("a[href^=javascript]").count(), 0);
    assert.equal(await prose.locator("a").first().getAttribute("rel"), "noopener noreferrer nofollow");
    assert.match(await prose.textContent(), /<script>document\.title/);
    await page.getByRole("button", { name: "Copy code" }).click();
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^def turn/);
    assert.deepEqual([foreign, complaints], [[], []]);
    await shot("markdown");
  });

  test("shows an answer that is nested too deeply as it was written, also when it opens again", async () => {
    await fake(said(`${">".repeat(20000)} the end`));
    await askToTheEnd("Nest!");
    assert.match(await answers().locator(".prose").innerText(), /^>>>+ the end$/);
    await page.reload();
    await page.getByRole("button", { name: "Answer again" }).waitFor();
    assert.match(await answers().locator(".prose").innerText(), /^>>>+ the end$/);
    assert.deepEqual(complaints, []);
  });

  test("asks for the models once, however often a setting is changed", async () => {
    await page.waitForLoadState("networkidle");
    let asked = 0;
    page.on("request", (request) => request.url().endsWith("/v1/models") && ++asked);
    await page.keyboard.press("Escape");
    await page.keyboard.press("s");
    for (let i = 0; i < 5; ++i) await page.getByRole("slider", { name: "Temperature" }).press("ArrowRight");
    await page.waitForLoadState("networkidle");
    assert.equal(asked, 1);
  });

  test("asks with its settings", async () => {
    await page.keyboard.press("Escape");
    await page.keyboard.press("s");
    const panel = page.getByRole("dialog", { name: "Settings" });
    await panel.waitFor();
    await page.waitForTimeout(150);
    await panel.getByLabel("System prompt").fill("You are a pirate.");
    await panel.getByLabel("Seed").fill("11");
    await panel.getByLabel("Drafter").fill("suffix");
    await panel.getByLabel("Policy").fill("fixed");
    await panel.getByLabel("Most tokens").fill("9");
    await shot("settings");
    await panel.getByRole("button", { name: "Done" }).click();
    const request = page.waitForRequest("**/v1/chat/completions");
    await askToTheEnd("Who are you?");
    const body = (await request).postDataJSON();
    assert.equal(body.messages[0].content, "You are a pirate.");
    assert.deepEqual(body.talon, { drafter: "suffix", policy: "fixed", trace: true });
    assert.deepEqual([body.seed, body.max_tokens, body.temperature], [11, 9, 0]);
    assert.match(await answers().textContent(), /Cut at the most tokens/);
  });

  test("shows the server at work", async () => {
    const body = JSON.stringify({ prompt: "Once upon a time", max_tokens: 1500, ignore_eos: true, stream: true });
    const controllers = [1, 2, 3].map(() => new AbortController());
    for (const { signal } of controllers) fetch(`${url}/v1/completions`, { method: "POST", body, signal }).then((reply) => reply.text()).catch(() => undefined);
    await page.keyboard.press("Escape");
    await page.keyboard.press("l");
    const live = page.getByRole("complementary", { name: "The server at work" });
    await page.waitForFunction(() => document.querySelectorAll(".live tbody tr").length === 3);
    await page.waitForTimeout(2500);
    assert.match(await live.textContent(), /Rows of the last step/);
    assert.ok(Number(await live.locator(".numbers dd").first().textContent()) > 0);
    await shot("live");
    for (const controller of controllers) controller.abort();
    await page.waitForFunction(() => document.querySelectorAll(".live tbody tr").length === 0);
  });

  test("asks what the server does once at a time, also after the panel was opened twice", async () => {
    let [underWay, most] = [0, 0];
    await page.route("**/v1/load", async (route) => {
      most = Math.max(most, ++underWay);
      await new Promise((later) => setTimeout(later, 300));
      --underWay;
      await route.fulfill({ json: { models: [] } }).catch(() => undefined); // the test may be over
    });
    await page.keyboard.press("Escape");
    for (const key of "lll") await page.keyboard.press(key);
    await page.waitForTimeout(700);
    most = 0; // what both openings asked has come
    await page.waitForTimeout(1500);
    assert.equal(most, 1);
  });

  test("can be used by keys alone", async () => {
    assert.equal(await composer().evaluate((element) => element === document.activeElement), true);
    await composer().fill("a draft");
    await composer().press("Escape");
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    await page.waitForTimeout(150);
    await shot("keys");
    await page.keyboard.press("Escape");
    await page.keyboard.press("/");
    assert.equal(await composer().evaluate((element) => element === document.activeElement), true);
    const names = [];
    await page.evaluate(() => document.activeElement.blur());
    for (let i = 0; i < 12; ++i) {
      await page.keyboard.press("Tab");
      names.push(await page.evaluate(() => document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent ?? ""));
    }
    assert.ok(names.every((name) => name.trim()), `one without a name: ${names.join(", ")}`);
  });
});

describe("elsewhere", () => {
  test("on a phone all fits, and the list comes from the side", async () => {
    await open({ viewport: phone, hasTouch: true, isMobile: true, deviceScaleFactor: 2 });
    await shot("phone-welcome");
    await askToTheEnd("List five uses for an old newspaper.");
    const wide = () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok((await wide()) <= 0);
    await shot("phone-answer");
    await page.locator(".prose .token.kept").first().tap();
    await page.getByRole("tooltip").waitFor();
    await shot("phone-tree");
    await page.getByRole("button", { name: "Conversations" }).tap();
    await page.waitForTimeout(350);
    assert.ok(await page.getByRole("button", { name: "New conversation" }).isVisible());
    assert.equal(await page.getByRole("tooltip").isVisible(), false, "the tree lies over the list");
    await shot("phone-list");
    await page.getByRole("button", { name: "Close the list" }).tap();
    await page.getByRole("button", { name: /Settings/ }).tap();
    await page.waitForTimeout(200);
    assert.ok((await wide()) <= 0);
    await shot("phone-settings");
  });

  test("on a small phone what went wrong can be read, and the end is seen while a question is written", async () => {
    await open({ viewport: { width: 320, height: 600 }, hasTouch: true, isMobile: true });
    await fake([...said("A line.\n\n".repeat(20)).slice(0, 1)], { isCut: true });
    await askToTheEnd("Lines?");
    assert.ok((await page.locator(".problem > div").boundingBox()).width > 200);
    await composer().fill("One\nTwo\nThree\nFour");
    await page.waitForFunction(() => {
      const thread = document.querySelector(".thread");
      return thread.scrollHeight - thread.scrollTop - thread.clientHeight < 2;
    });
    await shot("phone-small");
  });

  test("in the dark it is dark, and the theme can be chosen", async () => {
    await open({ colorScheme: "dark" });
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const lightness = (colour) => Math.max(...colour.match(/\d+/g).slice(0, 3).map(Number));
    assert.ok(lightness(await ground()) < 60);
    await shot("dark-welcome");
    await askToTheEnd("Write a Python function that reverses a list.");
    await page.getByRole("button", { name: "Without drafts" }).click();
    await page.locator(".verdict").waitFor();
    await page.locator(".prose .token.kept").first().hover();
    await page.getByRole("tooltip").waitFor();
    await shot("dark-answer");
    await page.mouse.move(5, 5);
    await page.getByRole("button", { name: /^Theme/ }).click();
    assert.ok(lightness(await ground()) > 200);
    await page.reload();
    assert.ok(lightness(await ground()) > 200);
  });
});
