#include <gtest/gtest.h>
#include <httplib.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <set>
#include <thread>

#include "bench/load/load_check.h"
#include "bench/load/load_run.h"
#include "bench/load/load_summary.h"
#include "core/error.h"

namespace talon::load_test {
namespace {

constexpr const char* kStream =
    "data: {\"choices\":[{\"text\":\"Once upon\"}]}\n\n"
    "data: {\"choices\":[{\"text\":\" a time\",\"finish_reason\":\"length\"}]}\n\n"
    "data: [DONE]\n\n";

/// An endpoint that answers as the test tells it to.
class FakeEndpoint {
 public:
  FakeEndpoint() {
    server_.new_task_queue = [] { return new httplib::ThreadPool(32); };
    server_.Get("/v1/models", [this](const httplib::Request&, httplib::Response& reply) {
      reply.set_content(models, "application/json");
    });
    server_.Post("/v1/completions",
                 [this](const httplib::Request& request, httplib::Response& reply) {
                   answer(Json::parse(request.body), reply);
                 });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ~FakeEndpoint() { stop(); }
  void stop() {
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }
  LoadServerChoice choice() const {
    return parse_load_url("fake=http://127.0.0.1:" + std::to_string(port_) + "/v1");
  }

  std::string models = R"({"data":[{"id":"small"}]})";
  std::string stream = kStream;
  std::atomic<int> status = 200;
  std::atomic<int> wait_ms = 5;
  bool takes_ids = true;
  int refusal = 400;  // of ids
  std::atomic<int> at_once = 0, most_at_once = 0;
  std::mutex mutex;
  std::multiset<std::string> prompts;  // of streams

 private:
  void answer(const Json& body, httplib::Response& reply) {
    if (!takes_ids && body["prompt"].is_array()) {
      reply.status = refusal;
      return;
    }
    if (!body["stream"].get<bool>()) return reply.set_content("{}", "application/json");
    most_at_once = std::max<int>(most_at_once, ++at_once);
    std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
    --at_once;
    {
      const std::lock_guard lock(mutex);
      prompts.insert(body["prompt"].dump());
    }
    reply.status = status;
    reply.set_content(stream, "text/event-stream");
  }

  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
};

const Tokenizer& tokenizer() {
  static const Tokenizer kTokenizer = Tokenizer::for_checkpoint(
      open_checkpoint(std::string(TALON_TEST_DATA) + "/models/stories260K.bin"));
  return kTokenizer;
}

LoadPrompts three_prompts() {
  std::vector<Question> questions;
  for (const char* text : {"Who is Tom?", "Where is Lily?", "Why does the dog run?"}) {
    questions.push_back({1, "", {text}});
  }
  return LoadPrompts(tokenizer(), nullptr, questions, {.max_new = 20});
}

LoadSetting setting() { return {{}, {"model.bin", tokenizer(), 1, 512}, 1}; }

std::vector<LoadAnswer> run(LoadServer& server, const LoadLevel& level, double seconds,
                            const StopFlag& stop = StopFlag()) {
  LoadSettings settings;
  settings.seconds = seconds;
  return run_slice(server, three_prompts(), 0, level, settings, stop);
}

TEST(Arrivals, AreAFunctionOfTheSeedAndAsManyAsTheRateSays) {
  const std::vector<double> times = arrivals(50, 100, 7);
  EXPECT_EQ(times, arrivals(50, 100, 7));
  EXPECT_NE(times, arrivals(50, 100, 8));
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  EXPECT_LT(times.back(), 100);
  EXPECT_NEAR(static_cast<double>(times.size()), 5000, 300);  // four standard deviations
  // Poisson: gaps vary as much as their mean.
  double squares = 0;
  for (std::size_t i = 1; i < times.size(); ++i) {
    squares += (times[i] - times[i - 1]) * (times[i] - times[i - 1]);
  }
  EXPECT_NEAR(squares / static_cast<double>(times.size()), 2 * 0.02 * 0.02, 2e-4);
}

TEST(LoadPromptTexts, NeverComeTwice) {
  const LoadPrompts prompts = three_prompts();
  std::set<std::vector<TokenId>> seen;
  for (int number = 0; number < 30; ++number) {
    const LoadPrompt prompt = prompts.at(number);
    EXPECT_TRUE(seen.insert(prompt.tokens).second) << prompt.text;
    EXPECT_GE(prompt.max_new, 10);
    EXPECT_LE(prompt.max_new, 20);
    EXPECT_EQ(prompt.tokens, prompts.at(number).tokens);
  }
  EXPECT_LE(prompts.long_at(0, 200).tokens.size(), 200u);
  EXPECT_GT(prompts.long_at(0, 200).tokens.size(), 180u);
  EXPECT_NE(prompts.long_at(0, 200).tokens, prompts.long_at(1, 200).tokens);
}

TEST(LoadPromptTexts, ThatAreTooLongAreLeftOutAndNoneLeftIsAnError) {
  const std::vector<Question> questions = {{1, "", {"Who is Tom?"}}};
  EXPECT_THROW(LoadPrompts(tokenizer(), nullptr, questions, {.max_prompt = 2}), Error);
}

TEST(LoadServers, AreNamedByMethodPeerOrUrl) {
  EXPECT_EQ(parse_load_method("auto").name, "talon auto");
  EXPECT_EQ(parse_load_method("peer:llama.cpp=/opt").name, "llama.cpp");
  const LoadServerChoice other = parse_load_method("peer:llama.cpp@source:ngram-simple=/opt");
  EXPECT_EQ(other.name, "llama.cpp@source:ngram-simple") << "beside another build";
  EXPECT_EQ(other.peer.speculation, "ngram-simple");
  EXPECT_THROW(parse_load_method("peer:openai=http://x"), UsageError);
  EXPECT_EQ(parse_load_url("mine=http://x/v1").place, "http://x/v1");
  for (const char* text : {"", "mine", "=http://x", "mine=/opt"}) {
    EXPECT_THROW(parse_load_url(text), UsageError) << text;
  }
}

TEST(LoadServers, ClaimTheSameTextsIfTheySayThatTheyAreTalon) {
  FakeEndpoint endpoint;
  EXPECT_FALSE(LoadServer(endpoint.choice(), setting()).claims_same_texts());
  endpoint.models = R"({"data":[{"id":"small","owned_by":"talon"}]})";
  EXPECT_TRUE(LoadServer(endpoint.choice(), setting()).claims_same_texts());
  endpoint.models = "{}";
  EXPECT_THROW(LoadServer(endpoint.choice(), setting()), Error);
}

TEST(LoadServers, ThatRefuseIdsAreSentText) {
  FakeEndpoint endpoint;
  endpoint.takes_ids = false;
  LoadServer server(endpoint.choice(), setting());
  EXPECT_EQ(server.body_of(three_prompts().at(0), {})["prompt"], three_prompts().at(0).text);
  endpoint.refusal = 503;
  EXPECT_THROW(LoadServer(endpoint.choice(), setting()), Error) << "that is not about ids";
}

TEST(LoadServers, AreToldTheWholeSamplerByTheirOwnNames) {
  SamplerOptions sampler;
  sampler.top_k = 5;
  sampler.logit_bias = {{3, -2.5F}};
  FakeEndpoint endpoint;
  LoadServer server(endpoint.choice(), setting());
  const Json body = server.body_of(three_prompts().at(0), sampler);
  EXPECT_EQ(body["top_k"], 5);
  EXPECT_EQ(body["logit_bias"], Json({{"3", -2.5}}));
  EXPECT_FALSE(body.contains("min_p")) << "as usual";
}

TEST(LoadServers, HaveSlotsWithRoomForWhatIsAsked) {
  EXPECT_EQ(slot_positions(1152, 8192), 4096);
  EXPECT_GE(slot_positions(5000 + 128, 8192), 5000 + 128);
  EXPECT_EQ(slot_positions(9000, 8192), 8192) << "the model has no more";
  EXPECT_EQ(slot_positions(1152, 2048), 2048);
}

TEST(ClosedLoop, KeepsSoManyRequestsAtOnceEachWithItsOwnPrompt) {
  FakeEndpoint endpoint;
  LoadServer server(endpoint.choice(), setting());
  endpoint.wait_ms = 300;
  const auto answers = run(server, {false, 6}, 2);
  EXPECT_EQ(endpoint.most_at_once, 6);
  EXPECT_GT(answers.size(), 6u);
  std::set<int> numbers;
  for (const LoadAnswer& answer : answers) {
    EXPECT_TRUE(numbers.insert(answer.prompt).second);
    EXPECT_EQ(answer.error, "");
    if (!answer.is_whole) continue;
    EXPECT_EQ(answer.text, "Once upon a time");
    EXPECT_EQ(answer.pieces.size(), 2u);
    EXPECT_GE(answer.pieces[0] - answer.begin, 300);
  }
  EXPECT_EQ(std::set(endpoint.prompts.begin(), endpoint.prompts.end()).size(),
            endpoint.prompts.size());
}

TEST(OpenLoop, SendsAtItsTimesWhoeverElseIsServed) {
  FakeEndpoint endpoint;
  LoadServer server(endpoint.choice(), setting());
  endpoint.wait_ms = 150;
  const auto answers = run(server, {true, 40}, 0.6);
  const std::vector<double> times = arrivals(40, 0.6, LoadSettings().seed);
  ASSERT_LE(answers.size(), times.size());
  EXPECT_GT(2 * answers.size(), times.size()) << "the rest on a busy machine comes too late";
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_DOUBLE_EQ(answers[i].begin, 1000 * times[i]);
  }
  EXPECT_GT(endpoint.most_at_once, 2);
}

TEST(LoadFaults, OfAnEndpointAreErrorsOfItsAnswersAndTheRestGoesOn) {
  FakeEndpoint endpoint;
  LoadServer server(endpoint.choice(), setting());
  const auto first_error = [&] {
    for (const LoadAnswer& answer : run(server, {false, 1}, 1)) {
      if (!answer.error.empty()) return answer.error;
    }
    return std::string();
  };
  endpoint.status = 500;
  endpoint.stream = "out of memory";
  EXPECT_NE(first_error().find("500: out of memory"), std::string::npos);
  endpoint.status = 200;
  endpoint.stream = "data: {\"choices\":[{\"text\":\"Once\"}]}\n\n";
  EXPECT_NE(first_error().find("expected an end"), std::string::npos);
  endpoint.stream = "data: {\"error\":{\"message\":\"broken\"}}\n\n";
  EXPECT_NE(first_error().find("broken"), std::string::npos);
  endpoint.stream = "data: [1, 2]\n\ndata: {\"choices\": 3}\n\ndata: [DONE]\n\n";
  EXPECT_EQ(first_error(), "");
  endpoint.stop();
  EXPECT_NE(first_error(), "");
}

TEST(LoadFaults, AServerThatSaysNothingIsLeftWhenTheSliceEnds) {
  FakeEndpoint endpoint;
  LoadServer server(endpoint.choice(), setting());
  endpoint.wait_ms = 4000;
  const auto start = std::chrono::steady_clock::now();
  const auto answers = run(server, {false, 2}, 0.2);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(2500));
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_FALSE(answers[0].is_whole);
  EXPECT_EQ(answers[0].error, "");
}

TEST(LoadFaults, AStopFlagEndsASliceSoon) {
  FakeEndpoint endpoint;
  LoadServer server(endpoint.choice(), setting());
  StopFlag stop;
  stop.request();
  EXPECT_TRUE(run(server, {false, 2}, 60, stop).empty());
  EXPECT_TRUE(run(server, {true, 1}, 60, stop).empty());
}

LoadAnswer answer_of(int prompt, std::string text, std::vector<double> pieces, bool whole = true) {
  LoadAnswer answer;
  answer.prompt = prompt;
  answer.begin = 100;
  answer.text = std::move(text);
  answer.pieces = std::move(pieces);
  answer.is_whole = whole;
  return answer;
}

/// Two servers, a round each: the second says twice as much.
std::vector<LoadSlice> two_slices() {
  LoadSlice first{.server = 0, .level = {false, 4}, .seconds = 2};
  first.answers = {answer_of(0, "aaaa", {150, 160, 180}), answer_of(1, "bb", {110, 111}, false)};
  LoadSlice second{.server = 1, .level = {false, 4}, .seconds = 2};
  second.answers = {answer_of(0, "aaaa", {120, 130}), answer_of(1, "bbbbbbbb", {130, 190})};
  second.answers.push_back({.prompt = 2, .error = "HTTP status 500"});
  LoadAnswer long_one = answer_of(0, "cccc", {900});
  long_one.is_long = true;
  second.answers.push_back(long_one);
  return {first, second};
}

int letters(const std::string& text) { return static_cast<int>(text.size()); }

TEST(LoadSummary, CountsTextOfASliceItsWaitsAndItsGaps) {
  const std::vector<LoadSlice> slices = two_slices();
  const std::vector<std::string> names = {"one", "two"};
  const auto results = summarize(slices, names, letters);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].tok_s.median, 3);
  EXPECT_EQ(results[0].first_ms.median, 50);
  EXPECT_EQ(results[0].gap_ms.worst, 20);
  EXPECT_EQ(results[0].answers, 1);
  EXPECT_EQ(results[0].cut, 1);
  EXPECT_EQ(results[1].tok_s.median, 6) << "long prompts do not count";
  EXPECT_EQ(results[1].times_first.median, 2);
  EXPECT_EQ(results[1].errors, 1);
  EXPECT_EQ(results[1].long_ms.worst, 800);
  EXPECT_EQ(results[1].gap_ms.worst, 60);
  const Json line = slice_json(slices[1], "two", letters);
  EXPECT_EQ(line["tok_s"], 6);
  EXPECT_EQ(line["concurrency"], 4);
  EXPECT_EQ(line["said"][0], "HTTP status 500");
  EXPECT_EQ(load_table(results).rows[1][4], "2.00");
}

/// Two got no text: one waits from 0.1 s on, one with a long prompt from 0.5 s on.
TEST(LoadSummary, CountsThoseThatGotNoTextAndWhatTheyWaited) {
  LoadSlice slice{.server = 0, .level = {false, 3}, .seconds = 2};
  slice.answers = {answer_of(0, "aaaa", {150, 160}),
                   answer_of(1, "", {}, false),
                   answer_of(2, "", {}),
                   {.prompt = 3, .error = "refused"}};
  LoadAnswer long_one = answer_of(4, "", {}, false);
  long_one.begin = 500;
  long_one.is_long = true;
  slice.answers.push_back(long_one);
  const std::vector<std::string> names = {"one"};
  const LoadResult result = summarize(std::span(&slice, 1), names, letters)[0];
  EXPECT_EQ(result.cut, 1);
  EXPECT_EQ(result.waiting, 1);
  EXPECT_EQ(result.answers, 2) << "an answer may be empty";
  EXPECT_EQ(result.first_ms.median, 50) << "of the one that got text";
  EXPECT_EQ(result.first_ms.worst, 1900);
  EXPECT_EQ(result.long_ms.worst, 1500);
  EXPECT_TRUE(std::isnan(result.long_ms.median));
  const Json line = slice_json(slice, "one", letters);
  EXPECT_EQ(line["waiting"], 1);
  EXPECT_EQ(line["first_ms"]["worst"], 1900);
  EXPECT_EQ(to_json(result)["waiting"], 1);
  const Table table = load_table(std::span(&result, 1));
  ASSERT_EQ(table.columns.size(), table.rows[0].size());
  EXPECT_EQ(table.columns[13], "waiting");
  EXPECT_EQ(table.rows[0][13], "1");
}

TEST(LoadCheck, ComparesWholeTextsAndBeginningsOfThoseThatWereCutOff) {
  const std::vector<LoadSlice> slices = two_slices();
  const std::vector<std::string> names = {"one", "two"};
  const LoadPrompts prompts = three_prompts();
  const auto check = [&](const std::string& of_second, bool second_claims) {
    auto results = summarize(slices, names, letters);
    const bool claims[] = {true, second_claims};
    const PlainText plain = [&](const LoadPrompt& prompt) {
      return prompt.tokens == prompts.at(0).tokens ? "aaaa" : of_second;
    };
    const auto said = check_texts(slices, claims, prompts, plain, results, [](auto, auto) {});
    return std::tuple(said.size(), results[0].unequal, results[1].unequal, results[1].compared);
  };
  EXPECT_EQ(check("bbbbbbbb", true), std::tuple(0u, 0, 0, 2));
  EXPECT_EQ(check("bbbb", true), std::tuple(1u, 0, 1, 2));
  EXPECT_EQ(check("bbbb", false), std::tuple(0u, 0, 1, 2)) << "another engine's arithmetic";
  EXPECT_EQ(check("b", false), std::tuple(1u, 1, 1, 2));
}

TEST(LoadCheck, GoesOnAfterAnAnswerThatIsRightlyEmptyAndEndsWhenItIsToStop) {
  LoadSlice slice{.server = 0, .level = {false, 1}, .seconds = 1};
  slice.answers = {answer_of(0, "", {}), answer_of(1, "bb", {110})};
  const std::vector<std::string> names = {"one"};
  const LoadPrompts prompts = three_prompts();
  const bool claims[] = {true};
  const auto check = [&](const std::optional<std::string>& of_first) {
    auto results = summarize(std::span(&slice, 1), names, letters);
    const PlainText plain = [&](const LoadPrompt& prompt) {
      return prompt.tokens == prompts.at(0).tokens ? of_first : "other";
    };
    const auto said =
        check_texts(std::span(&slice, 1), claims, prompts, plain, results, [](auto, auto) {});
    return std::tuple(said.size(), results[0].compared);
  };
  EXPECT_EQ(check(""), std::tuple(1u, 2));
  EXPECT_EQ(check(std::nullopt), std::tuple(0u, 0));
}

}  // namespace
}  // namespace talon::load_test
