#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <map>
#include <set>
#include <stdexcept>
#include <thread>

#include "c/test_model.h"
#include "runtime/answerer.h"
#include "runtime/cache_budget.h"
#include "runtime/loaded_model.h"
#include "text/prompt.h"

namespace talon::answers_test {
namespace {

const char* const kPrompts[] = {"Once upon a time", "One day, a little girl named Lily",
                                "The dog and the cat were", "Tim had a red ball. Tim had a red"};

using Answers = std::map<std::uint64_t, Heard>;

int listen(void* user, const talon_news* news) {
  Heard& heard = (*static_cast<Answers*>(user))[news->request];
  heard.tokens.insert(heard.tokens.end(), news->tokens, news->tokens + news->token_count);
  heard.text.append(news->text, news->text_bytes);
  heard.finish = news->finish;
  heard.accepted += news->accepted;
  return 0;
}

std::vector<TokenId> answer_of_library(const char* prompt, double temperature, std::uint64_t seed) {
  const LoadedModel loaded = open_model({.model = test_model_path(), .threads = 1});
  const auto cache = open_cache(loaded.model);
  DecodeSettings settings;
  settings.drafter = "none";
  Answerer answerer(loaded.model, *cache, loaded.tokenizer_or_null(), settings);
  Request request;
  request.prompt = encode_prompt(*loaded.tokenizer, prompt);
  request.max_new = 60;
  request.sampler.temperature = temperature;
  request.seed = seed;
  request.end_tokens = loaded.end_tokens;
  return answerer.decode(request).tokens;
}

TEST(CAnswers, SeveralRequestsOfSeveralMethodsAreThoseOfPlainDecoding) {
  const ModelHandle model = load_test_model();
  const EngineHandle engine = make_engine(model, "suffix@policy=fixed");
  EXPECT_STREQ(talon_engine_drafter(engine.get()), "suffix");
  Answers answers;
  std::map<std::uint64_t, std::vector<TokenId>> expected;
  int accepted = 0;
  for (int i = 0; i < 8; ++i) {
    const char* text = kPrompts[i % 4];
    const auto prompt = tokens_of(model, text);
    talon_request request = request_for(prompt, 60);
    request.temperature = i < 4 ? 0 : 0.8;
    request.seed = static_cast<std::uint64_t>(i);
    if (i % 2 == 1) request.method = "ngram";
    std::uint64_t id = 0;
    ASSERT_EQ(talon_engine_submit(engine.get(), &request, &id), TALON_OK) << talon_last_error();
    expected[id] = answer_of_library(text, request.temperature, request.seed);
  }
  ASSERT_EQ(talon_engine_run(engine.get(), listen, &answers, nullptr), TALON_OK);
  ASSERT_EQ(answers.size(), expected.size());
  for (const auto& [id, heard] : answers) {
    EXPECT_EQ(heard.tokens, expected[id]) << id;
    EXPECT_NE(heard.finish, TALON_FINISH_NONE);
    accepted += heard.accepted;
  }
  EXPECT_GT(accepted, 0);
}

TEST(CAnswers, StatisticsAndLogprobsComeWithTheNews) {
  const ModelHandle model = load_test_model();
  const EngineHandle engine = make_engine(model, "suffix@policy=fixed");
  const auto prompt = tokens_of(model, kPrompts[0]);
  talon_request request = request_for(prompt, 20);
  request.logprobs = 2;
  struct Seen {
    int tokens = 0, rounds = 0;
    bool good = true;
  } seen;
  const auto look = [](void* user, const talon_news* news) {
    auto& all = *static_cast<Seen*>(user);
    all.good = all.good && news->size == sizeof *news && news->top_count == 2;
    for (std::size_t i = 0; i < news->token_count; ++i) {
      all.good = all.good && news->token_logprobs[i] <= 0 &&
                 news->top[2 * i].log_p >= news->top[2 * i + 1].log_p &&
                 news->top[2 * i].token == news->tokens[i];  // greedily
    }
    all.tokens = news->statistics->answer_tokens;
    all.rounds = news->statistics->rounds;
    return 0;
  };
  std::uint64_t id = 0;
  ASSERT_EQ(talon_engine_submit(engine.get(), &request, &id), TALON_OK);
  ASSERT_EQ(talon_engine_run(engine.get(), look, &seen, nullptr), TALON_OK);
  EXPECT_TRUE(seen.good);
  EXPECT_EQ(seen.tokens, 20);
  talon_statistics statistics = talon_statistics_empty();
  ASSERT_EQ(talon_engine_statistics(engine.get(), id, &statistics), TALON_OK);
  EXPECT_EQ(statistics.answer_tokens, 20);
  EXPECT_EQ(statistics.prompt_tokens, static_cast<int>(prompt.size()));
  EXPECT_EQ(1 + statistics.rounds + statistics.accepted_tokens, 20);
  EXPECT_EQ(statistics.rounds, seen.rounds);
}

TEST(CAnswers, RoundsShowTheTreesThatWereChecked) {
  const ModelHandle model = load_test_model();
  talon_engine_options options = talon_engine_default();
  struct Rounds {
    int count = 0, emitted = 0;
    std::size_t most_nodes = 0;
    bool good = true;
  } rounds;
  options.round_user = &rounds;
  options.round = [](void* user, const talon_round* round) {
    auto& all = *static_cast<Rounds*>(user);
    ++all.count;
    all.emitted += static_cast<int>(round->emitted_count);
    all.most_nodes = std::max(all.most_nodes, round->node_count);
    all.good = all.good && round->round == all.count && round->parents[0] == -1 &&
               round->accepted[0] == 0 && round->accepted_count <= round->emitted_count;
  };
  const EngineHandle engine = make_engine(model, "suffix@policy=fixed", options);
  const auto prompt = tokens_of(model, kPrompts[3]);
  const talon_request request = request_for(prompt, 40);
  ASSERT_EQ(talon_engine_submit(engine.get(), &request, nullptr), TALON_OK);
  ASSERT_EQ(talon_engine_run(engine.get(), nullptr, nullptr, nullptr), TALON_OK);
  EXPECT_TRUE(rounds.good);
  EXPECT_EQ(rounds.emitted, 39);  // the first token comes from the prompt's forward
  EXPECT_GT(rounds.most_nodes, 1U);
}

/// What a round callback of one engine meets while another thread steps the other.
struct MeetingEngines {
  talon_engine* other = nullptr;
  std::thread stepper;
  std::promise<void> met;
  talon_status status = TALON_BUG;
};

void meet(void* user, const talon_round*) {
  auto& all = *static_cast<MeetingEngines*>(user);
  if (all.stepper.joinable()) return;
  all.stepper = std::thread([&] { talon_engine_run(all.other, nullptr, nullptr, nullptr); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the other is in its step
  all.status = talon_engine_load(all.other, nullptr, nullptr);
  all.met.set_value();
}

TEST(CAnswers, ARoundCallbackMayAskAnotherEngineOfTheModelThatSteps) {
  const ModelHandle model = load_test_model();
  MeetingEngines all;
  talon_engine_options options = talon_engine_default();
  options.round_user = &all;
  options.round = meet;
  const EngineHandle first = make_engine(model, "none", options);
  const EngineHandle second = make_engine(model, "none");
  all.other = second.get();
  const auto prompt = tokens_of(model, kPrompts[0]);
  const talon_request request = request_for(prompt, 20);
  for (talon_engine* engine : {first.get(), second.get()})
    ASSERT_EQ(talon_engine_submit(engine, &request, nullptr), TALON_OK);
  std::thread runner([&] { talon_engine_run(first.get(), nullptr, nullptr, nullptr); });
  const auto met = all.met.get_future().wait_for(std::chrono::seconds(60));
  if (met != std::future_status::ready) {
    std::fputs("the engines wait for each other\n", stderr);
    std::_Exit(1);  // nothing ends their threads
  }
  runner.join();
  all.stepper.join();
  EXPECT_EQ(all.status, TALON_OK);
}

TEST(CAnswers, ACallbackEndsItsAnswer) {
  const ModelHandle model = load_test_model();
  const EngineHandle engine = make_engine(model, "none");
  const auto prompt = tokens_of(model, kPrompts[0]);
  const talon_request request = request_for(prompt, 200);
  Heard heard;
  const auto stop = [](void* user, const talon_news* news) {
    Heard& all = *static_cast<Heard*>(user);
    all.tokens.insert(all.tokens.end(), news->tokens, news->tokens + news->token_count);
    all.finish = news->finish;
    return all.tokens.size() >= 5 ? 1 : 0;
  };
  ASSERT_EQ(talon_engine_submit(engine.get(), &request, nullptr), TALON_OK);
  ASSERT_EQ(talon_engine_run(engine.get(), stop, &heard, nullptr), TALON_OK);
  EXPECT_EQ(heard.finish, TALON_FINISH_CANCELLED);
  EXPECT_EQ(heard.tokens.size(), 5U);
}

TEST(CAnswers, TheCancelFlagEndsARunFromAnotherThread) {
  const ModelHandle model = load_test_model();
  const EngineHandle engine = make_engine(model, "none");
  talon_cancel* flag = nullptr;
  ASSERT_EQ(talon_cancel_new(&flag), TALON_OK);
  const CancelHandle cancel(flag);
  const auto prompt = tokens_of(model, kPrompts[0]);
  talon_request request = request_for(prompt, 400);
  request.ignore_end = 1;
  Answers answers;
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(talon_engine_submit(engine.get(), &request, nullptr), TALON_OK);
  std::thread other([&] { talon_cancel_request(flag); });
  EXPECT_EQ(talon_engine_run(engine.get(), listen, &answers, flag), TALON_CANCELLED);
  other.join();
  EXPECT_EQ(answers.size(), 3U);
  for (const auto& [id, heard] : answers) EXPECT_EQ(heard.finish, TALON_FINISH_CANCELLED);
  // The engine goes on.
  talon_cancel_clear(flag);
  request.max_new = 3;
  ASSERT_EQ(talon_engine_submit(engine.get(), &request, nullptr), TALON_OK);
  EXPECT_EQ(talon_engine_run(engine.get(), nullptr, nullptr, flag), TALON_OK);
}

TEST(CAnswers, ALoadThatIsCancelledEndsSoon) {
  talon_cancel* flag = nullptr;
  ASSERT_EQ(talon_cancel_new(&flag), TALON_OK);
  const CancelHandle cancel(flag);
  talon_cancel_request(flag);
  talon_model_options options = talon_model_default();
  options.cancel = flag;
  talon_model* model = nullptr;
  EXPECT_EQ(talon_model_load(test_model_path().c_str(), &options, &model), TALON_CANCELLED);
  EXPECT_EQ(model, nullptr);
}

TEST(CAnswers, CallsThatWouldWaitForThemselvesAreRefused) {
  const ModelHandle model = load_test_model();
  const EngineHandle engine = make_engine(model, "none");
  const auto prompt = tokens_of(model, kPrompts[0]);
  const talon_request request = request_for(prompt, 2);
  struct Inside {
    talon_engine* engine;
    talon_status step = TALON_OK, cancel = TALON_FAILED;
  } inside{engine.get()};
  const auto call = [](void* user, const talon_news* news) {
    auto& all = *static_cast<Inside*>(user);
    all.step = talon_engine_step(all.engine, nullptr, nullptr);
    all.cancel = talon_engine_cancel(all.engine, news->request);
    return 0;
  };
  ASSERT_EQ(talon_engine_submit(engine.get(), &request, nullptr), TALON_OK);
  EXPECT_EQ(talon_engine_run(engine.get(), call, &inside, nullptr), TALON_OK);
  EXPECT_EQ(inside.step, TALON_BAD_ARGUMENT);
  EXPECT_EQ(inside.cancel, TALON_OK);
}

TEST(CAnswers, WhatACallbackThrowsIsAStatus) {
  const ModelHandle model = load_test_model();
  const EngineHandle engine = make_engine(model, "none");
  const auto prompt = tokens_of(model, kPrompts[0]);
  const talon_request request = request_for(prompt, 2);
  const auto thrower = [](void*, const talon_news*) -> int { throw std::runtime_error("mine"); };
  ASSERT_EQ(talon_engine_submit(engine.get(), &request, nullptr), TALON_OK);
  EXPECT_EQ(talon_engine_run(engine.get(), thrower, nullptr, nullptr), TALON_FAILED);
  EXPECT_NE(std::string(talon_last_error()).find("mine"), std::string::npos);
  EXPECT_EQ(talon_engine_run(engine.get(), nullptr, nullptr, nullptr), TALON_OK);
}

TEST(CAnswers, ACallbackThatThrowsForOneRequestIsAskedForTheOthers) {
  const ModelHandle model = load_test_model();
  const EngineHandle engine = make_engine(model, "none");
  const auto prompt = tokens_of(model, kPrompts[0]);
  const talon_request request = request_for(prompt, 1);
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(talon_engine_submit(engine.get(), &request, nullptr), TALON_OK);
  std::vector<std::uint64_t> told;
  const auto listen_and_throw = [](void* user, const talon_news* news) -> int {
    auto& all = *static_cast<std::vector<std::uint64_t>*>(user);
    all.push_back(news->request);
    if (all.size() == 1) throw std::runtime_error("mine");
    return 0;
  };
  EXPECT_EQ(talon_engine_step(engine.get(), listen_and_throw, &told), TALON_FAILED);
  EXPECT_EQ(told.size(), 3U);
}

TEST(CAnswers, ACancelledRunEndsWhatIsSubmittedMeanwhile) {
  const ModelHandle model = load_test_model();
  const EngineHandle engine = make_engine(model, "none");
  talon_cancel* flag = nullptr;
  ASSERT_EQ(talon_cancel_new(&flag), TALON_OK);
  const CancelHandle cancel(flag);
  const auto prompt = tokens_of(model, kPrompts[0]);
  talon_request request = request_for(prompt, 400);
  request.ignore_end = 1;
  struct Seen {
    talon_engine* engine;
    const talon_request* request;
    std::thread late;
    int rounds = 0;
  } seen{engine.get(), &request, {}, 0};
  // One more comes in while the news of those that were cancelled are told.
  const auto call = [](void* user, const talon_news* news) {
    auto& all = *static_cast<Seen*>(user);
    ++all.rounds;
    if (news->finish == TALON_FINISH_CANCELLED && !all.late.joinable()) {
      all.late = std::thread([&] { talon_engine_submit(all.engine, all.request, nullptr); });
    }
    return 0;
  };
  for (int i = 0; i < 2; ++i)
    ASSERT_EQ(talon_engine_submit(engine.get(), &request, nullptr), TALON_OK);
  talon_cancel_request(flag);
  EXPECT_EQ(talon_engine_run(engine.get(), call, &seen, flag), TALON_CANCELLED);
  seen.late.join();
  EXPECT_LT(seen.rounds, 50);
}

TEST(CAnswers, AChatThatIsTooLongHasTheStatusOfALongPrompt) {
  const std::string path = TALON_DOWNLOADS "/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  talon_model* opened = nullptr;
  ASSERT_EQ(talon_model_load(path.c_str(), nullptr, &opened), TALON_OK) << talon_last_error();
  const ModelHandle model(opened);
  const std::string content(10'000'000, 'x');
  const talon_message message = {"user", content.c_str()};
  std::int32_t* tokens = nullptr;
  std::size_t count = 0;
  EXPECT_EQ(talon_chat_tokenize(model.get(), &message, 1, nullptr, &tokens, &count),
            TALON_TOO_LONG);
  EXPECT_NE(std::string(talon_last_error()).find("messages"), std::string::npos);
}

TEST(CAnswers, AFullQueueAndALongPromptHaveTheirStatus) {
  const ModelHandle model = load_test_model();
  talon_engine_options options = talon_engine_default();
  options.most_waiting = 2;
  const EngineHandle engine = make_engine(model, "none", options);
  const std::vector<std::int32_t> giant(5000, 403);
  const talon_request too_long = request_for(giant, 2);
  EXPECT_EQ(talon_engine_submit(engine.get(), &too_long, nullptr), TALON_TOO_LONG);
  const auto prompt = tokens_of(model, kPrompts[0]);
  const talon_request request = request_for(prompt, 2);
  EXPECT_EQ(talon_engine_submit(engine.get(), &request, nullptr), TALON_OK);
  EXPECT_EQ(talon_engine_submit(engine.get(), &request, nullptr), TALON_OK);
  EXPECT_EQ(talon_engine_submit(engine.get(), &request, nullptr), TALON_QUEUE_FULL);
  EXPECT_EQ(std::string(talon_last_error()).find("request->"), std::string::npos);
  std::int32_t running = -1, waiting = -1;
  EXPECT_EQ(talon_engine_load(engine.get(), &running, &waiting), TALON_OK);
  EXPECT_EQ(running + waiting, 2);
}

TEST(CAnswers, OfManyMethodsThoseThatNoRequestHasAreLetGoOf) {
  const ModelHandle model = load_test_model();
  const EngineHandle engine = make_engine(model, "none");
  const auto folder = std::filesystem::temp_directory_path() / "talon_c_methods";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const auto prompt = tokens_of(model, kPrompts[0]);
  const auto submit = [&](const std::string& method, int max_new) {
    talon_request request = request_for(prompt, max_new);
    request.method = method.c_str();
    request.ignore_end = 1;
    return talon_engine_submit(engine.get(), &request, nullptr);
  };
  const auto step = [&] { return talon_engine_step(engine.get(), nullptr, nullptr); };
  std::vector<std::string> methods;
  for (const char* name : {"done", "held"}) {
    std::filesystem::create_directory_symlink(TALON_TEST_DATA "/golden/stories260k/eagle3_head",
                                              folder / name);
    methods.push_back("eagle3:head=" + (folder / name).string() + "@policy=fixed");
  }
  EXPECT_EQ(submit(methods[0], 1), TALON_OK) << talon_last_error();
  EXPECT_EQ(submit(methods[1], 400), TALON_OK) << talon_last_error();
  for (int i = 1; i <= 40; ++i) {
    EXPECT_EQ(submit(fmt::format("ngram:nodes={}@policy=fixed", i), 1), TALON_OK);
    EXPECT_EQ(step(), TALON_OK);
  }
  std::filesystem::remove_all(folder);  // what is gone cannot be loaded again
  EXPECT_NE(submit(methods[0], 1), TALON_OK);
  EXPECT_EQ(submit(methods[1], 1), TALON_OK) << talon_last_error();
  EXPECT_EQ(submit("ngram:nodes=40@policy=fixed", 1), TALON_OK);
}

/// Two engines of one model, each stepped by its own thread while others submit and cancel.
TEST(CAnswers, ThreadsTakeTurns) {
  ModelHandle model = load_test_model();
  const EngineHandle engines[] = {make_engine(model, "suffix"), make_engine(model, "none")};
  const auto prompt = tokens_of(model, kPrompts[0]);
  const auto expected = answer_of_library(kPrompts[0], 0, 1);
  std::atomic<int> submitted = 0, finished = 0, wrong = 0, left = 4;
  struct Count {
    std::atomic<int>&finished, &wrong;
    const std::vector<TokenId>& expected;
    Answers answers = {};
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const talon_request request = request_for(prompt, 60);
      for (int n = 0; n < 3; ++n) {
        std::uint64_t id = 0;
        if (talon_engine_submit(engines[i % 2].get(), &request, &id) == TALON_OK) ++submitted;
        if (n == 2) talon_engine_cancel(engines[i % 2].get(), id + 1000);
        std::int32_t* ids = nullptr;
        std::size_t count = 0;
        if (talon_tokenize(model.get(), "a b", 3, nullptr, &ids, &count) != TALON_OK) ++wrong;
        talon_free(ids);
      }
      --left;
    });
  }
  for (const EngineHandle& engine : engines) {
    threads.emplace_back([&] {
      Count count{finished, wrong, expected};
      const auto hear = [](void* user, const talon_news* news) {
        auto& all = *static_cast<Count*>(user);
        listen(&all.answers, news);
        if (news->finish == TALON_FINISH_NONE) return 0;
        ++all.finished;
        if (all.answers[news->request].tokens != all.expected) ++all.wrong;
        return 0;
      };
      std::int32_t running = 1, waiting = 1;
      while (left > 0 || running + waiting > 0) {
        talon_engine_run(engine.get(), hear, &count, nullptr);
        talon_engine_load(engine.get(), &running, &waiting);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(submitted, 12);
  EXPECT_EQ(finished, 12);
  EXPECT_EQ(wrong, 0);
  model.reset();  // engines keep what they need
}

}  // namespace
}  // namespace talon::answers_test
