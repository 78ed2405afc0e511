#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "test_server.h"

namespace talon::test::paths_test {
namespace {

class Paths : public testing::Test {
 protected:
  static TestServer& server() {
    static TestServer server;
    return server;
  }
  static Json chat(const char* text, Json more = Json::object()) {
    Json body = {{"model", "tiny"},
                 {"messages", {{{"role", "user"}, {"content", text}}}},
                 {"max_tokens", 12},
                 {"temperature", 0}};
    body.update(more);
    return body;
  }
  static Json completion(const char* text, Json more = Json::object()) {
    Json body = {{"prompt", text}, {"max_tokens", 24}, {"temperature", 0}};
    body.update(more);
    return body;
  }
};

TEST_F(Paths, ACompletionIsWhatTheModelSaysAlone) {
  const Json body = completion("Once upon a time", {{"max_tokens", 60}});
  const Reply reply = server().post("/v1/completions", body);
  ASSERT_EQ(reply.status, 200) << reply.body;
  const Json answer = reply.json();
  EXPECT_EQ(answer["object"], "text_completion");
  EXPECT_EQ(answer["model"], "tiny");
  EXPECT_EQ(answer["choices"][0]["text"], plain_text(body));
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(answer["usage"]["completion_tokens"], 60);
  EXPECT_EQ(answer["timings"]["predicted_n"], 60);
  EXPECT_EQ(answer["talon"]["drafter"], "suffix");
}

TEST_F(Paths, ACompletionWithoutALengthHasSixteenTokens) {
  const Json answer =
      server().post("/v1/completions", {{"prompt", "Once"}, {"ignore_eos", true}}).json();
  EXPECT_EQ(answer["usage"]["completion_tokens"], 16);
}

TEST_F(Paths, AChatIsRenderedByTheTemplate) {
  const Json tokens =
      server().post("/tokenize", {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}}).json();
  const Json answer = server().post("/v1/chat/completions", chat("Hi")).json();
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(answer["usage"]["prompt_tokens"], tokens["count"]);
  EXPECT_EQ(answer["choices"][0]["message"]["content"],
            plain_text(completion("user: Hi\nassistant:", {{"max_tokens", 12}})));
}

TEST_F(Paths, PartsOfAMessageAreJoinedAndADeveloperSpeaksForTheSystem) {
  const Json parts = {{{"type", "text"}, {"text", "one "}}, {{"type", "text"}, {"text", "two"}}};
  const Json body = {{"messages", {{{"role", "developer"}, {"content", parts}}}}};
  EXPECT_EQ(server().post("/apply-template", body).json()["prompt"], "system: one two\nassistant:");
}

TEST_F(Paths, SeveralChoicesDifferAndEachIsItsOwn) {
  const Json more = {{"n", 3}, {"temperature", 1}, {"seed", 5}};
  const Json answer = server().post("/v1/completions", completion("Tom", more)).json();
  ASSERT_EQ(answer["choices"].size(), 3u);
  EXPECT_NE(answer["choices"][0]["text"], answer["choices"][1]["text"]);
  EXPECT_EQ(answer["choices"][2]["index"], 2);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 72);
  const Json alone =
      server().post("/v1/completions", completion("Tom", {{"temperature", 1}, {"seed", 5}})).json();
  EXPECT_EQ(alone["choices"][0]["text"], answer["choices"][0]["text"]);
}

TEST_F(Paths, SeveralPromptsAreAnsweredEach) {
  const Json answer =
      server()
          .post("/v1/completions",
                {{"prompt", {"Once", "Tom"}}, {"max_tokens", 8}, {"temperature", 0}})
          .json();
  ASSERT_EQ(answer["choices"].size(), 2u);
  EXPECT_EQ(answer["choices"][1]["text"],
            plain_text({{"prompt", "Tom"}, {"max_tokens", 8}, {"temperature", 0}}));
}

/// Some clients send 20 at a time, which is more than `n` may be.
TEST_F(Paths, ManyPromptsAreAnsweredInTheirOrder) {
  std::vector<std::string> prompts;
  for (int i = 0; i < 20; ++i) prompts.push_back("Tom had " + std::to_string(i) + " cats");
  Json fields = {{"prompt", prompts}, {"max_tokens", 8}, {"temperature", 0}};
  const Json answer = server().post("/v1/completions", fields).json();
  ASSERT_EQ(answer["choices"].size(), prompts.size()) << answer;
  for (const std::size_t i : {0U, 19U}) {
    fields["prompt"] = prompts[i];
    EXPECT_EQ(answer["choices"][i]["index"], i);
    EXPECT_EQ(answer["choices"][i]["text"], plain_text(fields)) << i;
  }
}

TEST_F(Paths, APromptMayBeTokens) {
  const Json tokens = server().post("/tokenize", {{"prompt", "Once upon"}}).json()["tokens"];
  const Json by_tokens =
      server().post("/v1/completions", {{"prompt", tokens}, {"temperature", 0}}).json();
  const Json by_text =
      server().post("/v1/completions", {{"prompt", "Once upon"}, {"temperature", 0}}).json();
  EXPECT_EQ(by_tokens["choices"][0]["text"], by_text["choices"][0]["text"]);
}

TEST_F(Paths, ASeedThatIsNotGivenIsChosenAndToldSoThatItCanBeGiven) {
  const Json free =
      server().post("/v1/completions", completion("Tom", {{"temperature", 1}})).json();
  const Json seed = free["talon"]["seed"];
  const Json again =
      server()
          .post("/v1/completions", completion("Tom", {{"temperature", 1}, {"seed", seed}}))
          .json();
  EXPECT_EQ(again["choices"][0]["text"], free["choices"][0]["text"]);
}

/// The last one in the bits of -1, which asks for any.
TEST_F(Paths, TheLastSeedIsToldSoThatItCanBeGiven) {
  const Json body = completion("Tom", {{"temperature", 1}, {"seed", 18446744073709551615U}});
  const Reply reply = server().post("/v1/completions", body);
  EXPECT_NE(reply.body.find("\"seed\":18446744073709551615"), std::string::npos) << reply.body;
  const Json other = completion("Tom", {{"temperature", 1}, {"seed", -2}});
  const std::string told = server().post("/v1/completions", other).body;
  EXPECT_NE(told.find("\"seed\":-2"), std::string::npos) << told;
}

TEST_F(Paths, AStopTextEndsTheAnswerBeforeIt) {
  const std::string whole = plain_text(completion("Once upon a time"));
  const std::string stop = whole.substr(whole.size() / 2, 4);
  const Json answer =
      server().post("/v1/completions", completion("Once upon a time", {{"stop", stop}})).json();
  EXPECT_EQ(answer["choices"][0]["text"], whole.substr(0, whole.find(stop)));
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop");
}

TEST_F(Paths, AStopTokenEndsTheAnswerUnlessItIsTooShort) {
  const auto ask = [&](Json more) {
    more["return_token_ids"] = true;
    return server().post("/v1/completions", completion("Once upon a time", more)).json();
  };
  const Json tokens = ask({})["choices"][0]["token_ids"];
  const Json stopped = ask({{"stop_token_ids", {tokens[4]}}});
  EXPECT_EQ(stopped["choices"][0]["token_ids"].size(), 5u);
  EXPECT_EQ(stopped["choices"][0]["finish_reason"], "stop");
  EXPECT_GE(
      ask({{"stop_token_ids", {tokens[4]}}, {"min_tokens", 10}})["choices"][0]["token_ids"].size(),
      10u);
}

TEST_F(Paths, LogprobsAreThoseOfTheModelWithAndWithoutDrafts) {
  const auto ask = [&](const char* drafter) {
    const Json more = {{"logprobs", true}, {"top_logprobs", 2}, {"talon", {{"drafter", drafter}}}};
    return server().post("/v1/chat/completions", chat("a a a a a a", more)).json();
  };
  const Json plain = ask("none"), drafted = ask("suffix");
  const Json& content = plain["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 12u);
  EXPECT_EQ(plain["choices"][0]["logprobs"], drafted["choices"][0]["logprobs"]);
  EXPECT_EQ(content[0]["top_logprobs"].size(), 2u);
  EXPECT_EQ(content[0]["top_logprobs"][0]["logprob"], content[0]["logprob"]);
  EXPECT_LT(content[0]["logprob"].get<double>(), 0);
  EXPECT_EQ(plain["talon"]["drafter"], "none");
}

TEST_F(Paths, LogprobsOfACompletionHaveTheOlderShape) {
  const Json answer =
      server().post("/v1/completions", completion("Once", {{"logprobs", 1}})).json();
  const Json& logprobs = answer["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"].size(), 24u);
  EXPECT_EQ(logprobs["token_logprobs"].size(), 24u);
  EXPECT_EQ(logprobs["top_logprobs"][3].size(), 1u);
  EXPECT_EQ(logprobs["text_offset"][0], 0);
}

TEST_F(Paths, OffsetsOfLogprobsCountCharactersOfTheText) {
  Json body = completion("Once", {{"logprobs", 0}});
  body["structured_outputs"] = {{"choice", {"\u00e9\u65e5,\u00e9."}}};
  const auto offsets_of = [](const Json& choice, std::map<std::string, int>& offsets) {
    const Json& logprobs = choice["logprobs"];
    for (std::size_t i = 0; i < logprobs["tokens"].size(); ++i) {
      offsets[logprobs["tokens"][i]] = logprobs["text_offset"][i];
    }
  };
  std::map<std::string, int> whole, streamed;
  offsets_of(server().post("/v1/completions", body).json()["choices"][0], whole);
  EXPECT_EQ(whole.at(","), 2);
  EXPECT_EQ(whole.at("."), 4);
  body["stream"] = true;
  for (const Json& event : server().post("/v1/completions", body).events()) {
    for (const Json& choice : event["choices"]) offsets_of(choice, streamed);
  }
  EXPECT_EQ(streamed, whole);
}

TEST_F(Paths, TokensOfThePromptAreToldOnceOfEachChoice) {
  Json body = completion("Once", {{"n", 2}, {"return_token_ids", true}});
  const Json whole = server().post("/v1/completions", body).json();
  body["stream"] = true;
  std::map<int, Json> told;
  for (const Json& event : server().post("/v1/completions", body).events()) {
    for (const Json& choice : event["choices"]) {
      if (!choice.contains("prompt_token_ids")) continue;
      EXPECT_TRUE(told.emplace(choice["index"], choice["prompt_token_ids"]).second);
    }
  }
  ASSERT_EQ(told.size(), 2u);
  for (const auto& [index, tokens] : told) {
    EXPECT_EQ(tokens, whole["choices"][static_cast<std::size_t>(index)]["prompt_token_ids"]);
  }
}

/// Of sixteen long prompts a millisecond is too short for the last.
TEST_F(Paths, TimingsCountTheTokensOfPromptsThatWereRun) {
  Json body = completion("", {{"return_token_ids", true}, {"talon", {{"deadline_ms", 1}}}});
  body["prompt"] = Json::array();
  for (int i = 0; i < 16; ++i) body["prompt"].push_back(std::vector<int>(400, 300 + i));
  const Json answer = server().post("/v1/completions", body).json();
  ASSERT_EQ(answer["choices"].back()["token_ids"].size(), 0u) << answer;
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 16 * 400);
  EXPECT_LE(answer["timings"]["prompt_n"], 15 * 400 + 399);
}

TEST_F(Paths, TheSpeculationOfOneRequestIsToldOnRequest) {
  const Json more = {{"max_tokens", 100}, {"talon", {{"metrics", true}, {"policy", "fixed"}}}};
  const Json answer = server().post("/v1/completions", completion("a a a a a a a a", more)).json();
  const Json& speculation = answer["metrics"]["speculative_decoding"];
  int rounds = 0, accepted = 0, of = 0;
  for (const Json& count : speculation["acceptance_histogram"]) {
    rounds += count.get<int>();
    accepted += of++ * count.get<int>();
  }
  EXPECT_EQ(speculation["num_spec_steps"], rounds);
  EXPECT_EQ(speculation["num_accepted_draft_tokens"], accepted);
  EXPECT_EQ(answer["timings"]["draft_n_accepted"], accepted);
  EXPECT_GT(rounds, 0);
  EXPECT_LE(rounds + accepted + 1, 100) << "others drafted nothing";
  EXPECT_NEAR(speculation["mean_acceptance_length"].get<double>(), 1 + 1.0 * accepted / rounds,
              1e-9);
  EXPECT_FALSE(server().post("/v1/completions", completion("a")).json().contains("metrics"));
}

TEST_F(Paths, RoundsWithoutADraftAreNoSpeculation) {
  const Json more = {{"talon", {{"metrics", true}, {"drafter", "none"}}}};
  const Json answer = server().post("/v1/completions", completion("a a a a", more)).json();
  const Json& speculation = answer["metrics"]["speculative_decoding"];
  EXPECT_EQ(speculation["num_spec_steps"], 0);
  EXPECT_EQ(speculation["acceptance_histogram"], Json::array());
  EXPECT_EQ(speculation["mean_acceptance_length"], 1.0);
}

TEST_F(Paths, APrefixThatTheCacheKnowsIsCountedButNotAcrossSalts) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += " the big dog saw a cat";
  const auto cached = [&](const char* salt) {
    const Json answer =
        server().post("/v1/completions", completion(text.c_str(), {{"cache_salt", salt}})).json();
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>();
  };
  EXPECT_EQ(cached("ann"), 0);
  EXPECT_GT(cached("ann"), 64);
  EXPECT_EQ(cached("bob"), 0);
}

TEST_F(Paths, ADeadlineEndsAnAnswerWhereItIs) {
  const Json more = {{"max_tokens", 400}, {"ignore_eos", true}, {"talon", {{"deadline_ms", 1}}}};
  const Json answer = server().post("/v1/completions", completion("Once", more)).json();
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(answer["talon"]["ended"], "deadline");
  EXPECT_LT(answer["usage"]["completion_tokens"].get<int>(), 400);
}

TEST_F(Paths, TextBecomesTokensAndBack) {
  const Json tokens =
      server().post("/tokenize", {{"content", "a big dog"}, {"add_special", false}}).json();
  EXPECT_EQ(tokens["count"], tokens["tokens"].size());
  const Json text = server().post("/detokenize", {{"tokens", tokens["tokens"]}}).json();
  EXPECT_EQ(text["content"], "a big dog");
  const Json pieces = server().post("/tokenize", {{"content", "a"}, {"with_pieces", true}}).json();
  EXPECT_TRUE(pieces["tokens"][0].contains("piece"));
  // Bytes of a character that is no token.
  const Json split =
      server().post("/tokenize", {{"content", "\u2603"}, {"with_pieces", true}}).json();
  EXPECT_EQ(split["tokens"].back()["piece"], Json::array({0x83})) << split;
}

/// `content` is llama.cpp's name of the text, `prompt` vLLM's.
TEST_F(Paths, TokensOfATextBeginAsInTheInterfaceThatNamesItSo) {
  const auto count = [&](const Json& ask) {
    return server().post("/tokenize", ask).json()["count"].get<int>();
  };
  const int own = count({{"content", "a big dog"}});
  EXPECT_EQ(count({{"prompt", "a big dog"}}), own + 1);
  EXPECT_EQ(count({{"content", "a big dog"}, {"add_special", true}}), own + 1);
  EXPECT_EQ(count({{"content", "a big dog"}, {"add_special", false}}), own);
  EXPECT_EQ(count({{"prompt", "a big dog"}, {"add_special_tokens", false}}), own);
}

TEST_F(Paths, SpecialTokensOfAPromptAreTextWhereItsUserSaysSo) {
  const char* const text = "Once</s> upon";
  const auto prompt_tokens = [&](const Json& more) {
    const Json answer = server().post("/v1/completions", completion(text, more)).json();
    return answer["usage"]["prompt_tokens"].get<int>();
  };
  const auto tokens = [&](bool parses) {
    const Json ask = {{"prompt", text}, {"parse_special", parses}};
    return server().post("/tokenize", ask).json()["count"].get<int>();
  };
  EXPECT_LT(tokens(true), tokens(false));
  EXPECT_EQ(prompt_tokens({{"parse_special", true}}), tokens(true));
  EXPECT_EQ(prompt_tokens({{"parse_special", false}}), tokens(false));
  EXPECT_EQ(prompt_tokens(Json::object()), tokens(true));
}

TEST_F(Paths, ModelsAndTheServersStateAreTold) {
  EXPECT_EQ(server().get("/v1/models").json()["data"][0]["id"], "tiny");
  EXPECT_EQ(server().get("/v1/models/tiny").json()["object"], "model");
  EXPECT_EQ(server().get("/v1/models/other").status, 404);
  EXPECT_EQ(server().get("/health").json()["status"], "ok");
  EXPECT_EQ(server().get("/ready").json()["status"], "ready");
  EXPECT_EQ(server().get("/props").json()["default_generation_settings"]["n_ctx"], 512);
  EXPECT_EQ(server().get("/v1/load").json()["models"][0]["model"], "tiny");
}

TEST_F(Paths, AreServedWithoutTheirVersionToo) {
  EXPECT_EQ(server().get("/models").json(), server().get("/v1/models").json());
  const Json body = completion("Once");
  EXPECT_EQ(server().post("/completions", body).json()["choices"][0]["text"], plain_text(body));
  EXPECT_EQ(server().post("/chat/completions", chat("Hi")).json()["object"], "chat.completion");
  EXPECT_EQ(server().post("/responses", {{"input", "Hi"}, {"max_output_tokens", 4}}).status, 200);
}

TEST_F(Paths, AModelIsFoundByEachOfItsNames) {
  TestServer::Options options;
  options.other_names = {"gpt-4o", "small"};
  TestServer named(options);
  const Json list = named.get("/v1/models").json()["data"];
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0]["id"], "tiny");
  EXPECT_EQ(list[1]["id"], "gpt-4o");
  EXPECT_EQ(named.get("/v1/models/small").json()["id"], "small");
  const Json asked = completion("Once", {{"model", "small"}});
  EXPECT_EQ(named.post("/v1/completions", asked).json()["model"], "tiny");
  EXPECT_EQ(named.post("/v1/completions", completion("Once", {{"model", "large"}})).status, 404);
  EXPECT_NE(named.get("/metrics").body.find("model_name=\"tiny\""), std::string::npos);
  EXPECT_EQ(named.get("/metrics").body.find("model_name=\"small\""), std::string::npos);
}

TEST_F(Paths, MetricsCountWhatWasAnswered) {
  const auto value_of = [&](const std::string& name) {
    const std::string text = server().get("/metrics").body;
    const std::size_t at = text.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::stod(text.substr(at + name.size() + 2));
  };
  const std::string model = "{model_name=\"tiny\"}";
  const double tokens = std::max(0.0, value_of("talon:generation_tokens_total" + model));
  const double first = std::max(0.0, value_of("talon:time_to_first_token_seconds_count" + model));
  server().post("/v1/completions", completion("Once"));
  EXPECT_TRUE(server().load_becomes(0));  // which is known a moment after the answer
  EXPECT_EQ(value_of("talon:generation_tokens_total" + model), tokens + 24);
  EXPECT_EQ(value_of("talon:time_to_first_token_seconds_count" + model), first + 1);
  EXPECT_EQ(value_of("talon:num_requests_running" + model), 0);
  for (const char* name :
       {"talon:inter_token_latency_seconds_count", "talon:e2e_request_latency_seconds_count",
        "talon:request_queue_time_seconds_count", "talon:num_requests_waiting",
        "talon:kv_cache_usage_perc", "talon:spec_decode_num_dropped_total",
        "talon:spec_decode_num_lost_rows_total", "talon:prefix_cache_queries_total",
        "talon:prefix_cache_hits_total", "talon:spec_decode_num_drafts_total",
        "talon:spec_decode_num_draft_tokens_total",
        "talon:spec_decode_num_accepted_tokens_total"}) {
    EXPECT_GE(value_of(name + model), 0) << name;
  }
  EXPECT_GE(value_of("talon:http_responses_total{code=\"200\"}"), 1);
}

}  // namespace
}  // namespace talon::test::paths_test
