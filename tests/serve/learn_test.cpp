#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/scratch_folder.h"
#include "draft/head/gguf_head.h"
#include "draft/head/head_tensors.h"
#include "io/checkpoint.h"
#include "test_server.h"
#include "train/data/manifest.h"

namespace talon::test::learn_test {
namespace {

const std::string kHead = TALON_TEST_DATA "/golden/stories260k/eagle3_head";

/// A folder that goes with the test.
class LearnFolder : public ScratchFolder {
 public:
  /// Of a server whose head is kHead, and learns by no trainer.
  TestServer::Options options() const {
    TestServer::Options options;
    options.drafter = "eagle3:head=" + kHead + "+suffix";
    options.learn.emplace();
    options.learn->folder = path() / "learn";
    return options;
  }
  /// And by a program that does `script`: it writes to $out, starts from $start, is told $all.
  TestServer::Options options(const std::string& script) const {
    TestServer::Options with = options();
    with.learn->trainer = path() / "trainer";
    with.learn->least_tokens = 100;
    with.learn->rest = std::chrono::milliseconds(1);
    with.learn->share = 1;
    std::ofstream(with.learn->trainer)
        << "#!/bin/sh\nall=$*\n"
           "while [ $# -gt 0 ]; do case $1 in -o) out=$2;; --start) start=$2;; esac; "
           "shift; done\n"
        << script << "\n";
    std::filesystem::permissions(with.learn->trainer, std::filesystem::perms::owner_all);
    return with;
  }
  /// A head like kHead that guesses at random: its output matrix is all zeros.
  std::string bad_head() const {
    const std::filesystem::path folder = path() / "bad";
    std::filesystem::create_directories(folder);
    for (const char* file : {"config.json", "model.safetensors"}) {
      std::filesystem::copy_file(std::filesystem::path(kHead) / file, folder / file,
                                 std::filesystem::copy_options::overwrite_existing);
    }
    std::fstream file(folder / "model.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    std::uint64_t length = 0;
    file.read(reinterpret_cast<char*>(&length), sizeof(length));
    std::string header(length, ' ');
    file.read(header.data(), static_cast<std::streamsize>(length));
    const Json place = Json::parse(header)["lm_head.weight"]["data_offsets"];
    const std::size_t begin = place[0], end = place[1];
    file.seekp(static_cast<std::streamoff>(sizeof(length) + length + begin));
    file << std::string(end - begin, '\0');
    return folder;
  }
};

Json completion(int number) {
  return {{"prompt", "Tom saw " + std::to_string(number) + " birds and"},
          {"max_tokens", 24},
          {"temperature", number % 2 == 0 ? 0 : 1},
          {"seed", number}};
}

Json learning(const TestServer& server) {
  return server.get("/v1/load").json()["models"][0]["learning"];
}

TEST(Learn, KeepsEveryAnswerWithItsVectorsAndChangesNone) {
  constexpr int kRequests = 40;
  const LearnFolder folder;
  std::size_t kept = 0, held_out = 0;
  {
    TestServer server(folder.options());
    for (int i = 0; i < kRequests; ++i) {
      const Json answer = server.post("/v1/completions", completion(i)).json();
      EXPECT_EQ(answer["choices"][0]["text"], plain_text(completion(i)));
    }
    ASSERT_TRUE(server.becomes_idle());
    const Json said = learning(server);
    EXPECT_EQ(said["left_out"], 0);
    EXPECT_GT(said["answer_tokens"], 0);
  }  // what is still to be written is
  for (const char* part : {"recent", "held_out"}) {
    const Dataset data(folder.path() / "learn" / part);
    (std::string(part) == "recent" ? kept : held_out) = data.size();
    for (std::size_t i = 0; i < data.size(); ++i) {
      const Conversation conversation = data.read(i);
      EXPECT_EQ(conversation.rows() + 1, static_cast<int>(conversation.tokens.size()));
      EXPECT_TRUE(conversation.source.starts_with("served seed="));
    }
  }
  EXPECT_EQ(kept + held_out, kRequests);
  EXPECT_GT(held_out, 0U);
  EXPECT_GT(kept, 4 * held_out);
}

TEST(Learn, TextsHaveTheVectorsOfTheLayersThatTheHeadReads) {
  const LearnFolder folder;
  const std::string head = folder.bad_head();
  Json config = Json::parse(std::ifstream(head + "/config.json"));
  config["tap_layers"] = {0, 2, 3};
  std::ofstream(head + "/config.json") << config;
  auto options = folder.options();
  options.drafter = "eagle3:head=" + head;
  { const TestServer server(options); }
  const auto manifest = read_manifest(folder.path() / "learn/recent");
  EXPECT_EQ(manifest.value().info.taps, (std::vector{0, 2, 3, FeatureTap::kFinalNorm}));
}

/// Asks until a round of learning has ended; the answers must be plain ones.
Json learn_a_round(const TestServer& server, int from = 0) {
  Json said;
  for (int i = from; i < from + 24; ++i) {
    EXPECT_EQ(server.post("/v1/completions", completion(i)).json()["choices"][0]["text"],
              plain_text(completion(i)));
  }
  for (int i = 0; i < 6000; ++i) {
    said = learning(server);
    if (said["rounds"] > 0) return said;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ADD_FAILURE() << "no round ended: " << said;
  return said;
}

double accepted_share(const TestServer& server) {
  Json asked = completion(2);
  asked["max_tokens"] = 100;
  asked["talon"] = {{"drafter", "eagle3"}, {"policy", "fixed"}};
  const Json timings = server.post("/v1/completions", asked).json()["timings"];
  return timings["draft_n_accepted"].get<double>() / timings["draft_n"].get<double>();
}

TEST(Learn, ABetterHeadIsUsedAndAlsoByTheNextServer) {
  const LearnFolder folder;
  auto options = folder.options("cp -r " + kHead + " $out/head");
  options.drafter = "eagle3:head=" + folder.bad_head();
  double before = 0, after = 0;
  {
    const TestServer server(options);
    before = accepted_share(server);
    const Json said = learn_a_round(server);
    EXPECT_TRUE(said["last_round"]["used"]) << said;
    EXPECT_EQ(said["swaps"], 1);
    after = accepted_share(server);
    EXPECT_GT(after, 2 * before);
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "learn/run"));
  }
  const TestServer next(options);
  EXPECT_EQ(accepted_share(next), after);
  EXPECT_EQ(learning(next)["swaps"], 1);
}

TEST(Learn, AWorseHeadIsNeverUsed) {
  const LearnFolder folder;
  const TestServer server(folder.options("cp -r " + folder.bad_head() + " $out/head"));
  const double before = accepted_share(server);
  const Json said = learn_a_round(server);
  EXPECT_FALSE(said["last_round"]["used"]) << said;
  EXPECT_LT(said["last_round"]["after"], said["last_round"]["before"]);
  EXPECT_EQ(said["swaps"], 0);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "learn/heads"));
  EXPECT_EQ(accepted_share(server), before);
}

TEST(Learn, ATrainerThatFailsIsToldOfAndServesOn) {
  const LearnFolder folder;
  const TestServer server(folder.options("echo broken; exit 3"));
  const Json said = learn_a_round(server);
  EXPECT_NE(said["problem"].get<std::string>().find("ended with 3"), std::string::npos) << said;
  EXPECT_EQ(said["swaps"], 0);
  EXPECT_EQ(server.post("/v1/completions", completion(1)).json()["choices"][0]["text"],
            plain_text(completion(1)));
}

/// Else the next server, told of the same head in other words, could not go on with the round.
TEST(Learn, TheTrainerIsToldOfAHeadByItsOneName) {
  const LearnFolder folder;
  auto options = folder.options("echo $start > $out/../start; exit 3");
  options.drafter = "eagle3:head=" + kHead + "/../../stories260k/eagle3_head";
  const TestServer server(options);
  learn_a_round(server);
  std::string start;
  std::getline(std::ifstream(folder.path() / "learn/start"), start);
  EXPECT_EQ(start, std::filesystem::canonical(kHead));
}

/// So that those whom it serves pay no more for its drafts than before.
TEST(Learn, AHeadInFourBitsLearnsInTheirRoundingAndIsStoredInThem) {
  const LearnFolder folder;
  const std::filesystem::path first = folder.path() / "first.gguf";
  write_gguf_head(open_checkpoint(folder.bad_head()),
                  open_checkpoint(TALON_TEST_DATA "/golden/stories260k/target"), HeadStorage::q4_1,
                  first);
  auto options = folder.options("echo $all > $out/../told; cp -r " + kHead + " $out/head");
  options.drafter = "eagle3:head=" + first.string();
  const TestServer server(options);
  const double before = accepted_share(server);
  const Json said = learn_a_round(server);
  EXPECT_EQ(said["swaps"], 1) << said;
  std::string told;
  std::getline(std::ifstream(folder.path() / "learn/told"), told);
  EXPECT_NE(told.find(" --weights int4 "), std::string::npos) << told;
  const Checkpoint learned = open_checkpoint(folder.path() / "learn/heads/0001");
  const HeadTensors tensors(learned);
  for (const char* matrix : {"fc.weight", "gate_proj.weight", "lm_head.weight"})
    EXPECT_EQ(tensors.require(matrix).type, StorageType::q4_1) << matrix;
  EXPECT_GT(accepted_share(server), before);
}

TEST(Learn, AHeadThatIsNotInFourBitsLearnsInFull) {
  const LearnFolder folder;
  const TestServer server(folder.options("echo $all > $out/../told; exit 3"));
  learn_a_round(server);
  std::string told;
  std::getline(std::ifstream(folder.path() / "learn/told"), told);
  EXPECT_NE(told.find("--start"), std::string::npos) << told;
  EXPECT_EQ(told.find("--weights"), std::string::npos) << told;
}

TEST(Learn, AHeadThatIsNoneIsToldOfAndServesOn) {
  const LearnFolder folder;
  const TestServer server(folder.options("mkdir $out/head; echo '{}' > $out/head/config.json"));
  const Json said = learn_a_round(server);
  EXPECT_TRUE(said.contains("problem")) << said;
  EXPECT_EQ(said["swaps"], 0);
}

/// The first trainer waits to be asked to end, and leaves a checkpoint; the next one finds it.
TEST(Learn, ARoundThatTheEndOfTheServerBreaksOffIsGoneOnWith) {
  const LearnFolder folder;
  auto options = folder.options(
      "if [ -e $out/checkpoint ]; then cp -r " + kHead +
      " $out/head; exit 0; fi\ntrap 'echo > $out/checkpoint; exit 130' TERM\necho > $out/began\n"
      "while true; do sleep 0.01; done");
  options.drafter = "eagle3:head=" + folder.bad_head();
  {
    const TestServer server(options);
    for (int i = 0; i < 24; ++i) server.post("/v1/completions", completion(i));
    for (int i = 0; i < 6000 && !std::filesystem::exists(folder.path() / "learn/run/began"); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    EXPECT_EQ(learning(server)["phase"], "training");
  }
  ASSERT_TRUE(std::filesystem::exists(folder.path() / "learn/run/checkpoint"));
  const TestServer next(options);
  const Json said = learn_a_round(next, 24);
  EXPECT_EQ(said["swaps"], 1) << said;
}

TEST(Learn, AnswersUnderWayWhileTheHeadChangesAreThoseOfAlways) {
  const LearnFolder folder;
  auto options = folder.options("cp -r " + kHead + " $out/head");
  options.drafter = "eagle3:head=" + folder.bad_head();
  const TestServer server(options);
  std::vector<std::string> plain;
  for (int i = 0; i < 24; ++i) plain.push_back(plain_text(completion(i)));
  std::atomic<bool> is_over = false;
  std::vector<std::thread> clients;
  for (int client = 0; client < 3; ++client) {
    clients.emplace_back([&, client] {
      for (int i = client; !is_over; i = (i + 1) % 24) {
        const Json answer = server.post("/v1/completions", completion(i)).json();
        EXPECT_EQ(answer["choices"][0]["text"], plain[static_cast<std::size_t>(i)]);
        std::this_thread::sleep_for(std::chrono::milliseconds(i % 5));
      }
    });
  }
  Json said;
  for (int i = 0; i < 3000; ++i) {
    said = learning(server);
    if (said["swaps"] > 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  is_over = true;
  for (std::thread& client : clients) client.join();
  EXPECT_GT(said["swaps"], 0) << said;
}

TEST(Learn, AFolderOfAnotherKindOfHeadIsRefused) {
  const LearnFolder folder;
  { const TestServer server(folder.options("exit 1")); }
  auto options = folder.options("exit 1");
  options.drafter = "eagle2:head=" TALON_TEST_DATA "/golden/stories260k/eagle1_head";
  EXPECT_THROW(TestServer{options}, Error);
}

TEST(Learn, TheSameAnswerIsKeptOnce) {
  const LearnFolder folder;
  TestServer server(folder.options());
  for (int i = 0; i < 3; ++i) server.post("/v1/completions", completion(2));
  Json said;  // the client is told of its answer first
  for (int i = 0; i < 1000; ++i) {
    said = learning(server);
    if (said["texts"].get<int>() + said["left_out"].get<int>() == 3) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(said["texts"], 1);
  EXPECT_EQ(said["left_out"], 2);
}

TEST(Learn, NobodyIsToldOfLearningWhereThereIsNone) {
  const TestServer server;
  EXPECT_FALSE(server.get("/v1/load").json()["models"][0].contains("learning"));
}

TEST(Learn, WhatIsFreshIsSavedWhileItServesAndTextsOfEarlierServersCount) {
  const LearnFolder folder;
  auto options = folder.options("exit 1");
  options.learn->least_tokens = 1'000'000;
  options.learn->save_every = std::chrono::milliseconds(1);
  const auto state = folder.path() / "learn/state.json";
  Json said;
  {
    const TestServer server(options);
    for (int i = 0; i < 12; ++i) server.post("/v1/completions", completion(i));
    Json saved;
    for (int i = 0; i < 1000; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (std::ifstream file(state); file) saved = Json::parse(file);
      said = learning(server);
      if (said["texts"] == 12 && saved["fresh_tokens"] == said["answer_tokens"]) break;
    }
    EXPECT_GT(said["answer_tokens"], 0);
    EXPECT_EQ(saved["fresh_tokens"], said["answer_tokens"]);
  }
  const TestServer next(options);
  EXPECT_EQ(learning(next)["texts"], 12);
  EXPECT_EQ(learning(next)["held_out"], said["held_out"]);
  EXPECT_EQ(learning(next)["fresh_tokens"], said["fresh_tokens"]);
}

TEST(Learn, ADamagedHeadOrTextIsNoReasonNotToServe) {
  const LearnFolder folder;
  auto options = folder.options("cp -r " + kHead + " $out/head");
  options.drafter = "eagle3:head=" + folder.bad_head();
  {
    const TestServer server(options);
    EXPECT_EQ(learn_a_round(server)["swaps"], 1);
  }
  const auto learned = folder.path() / "learn";
  std::ofstream(learned / "heads/0001/config.json") << "{}";
  for (const auto& entry : std::filesystem::directory_iterator(learned / "recent")) {
    if (entry.path().extension() == ".talondata")
      std::ofstream(entry.path()) << std::string(99, 'x');
  }
  std::string notes;
  options.learn->note = [&](const std::string& note) { notes += note + "\n"; };
  {
    const TestServer next(options);
    EXPECT_EQ(next.post("/v1/completions", completion(1)).json()["choices"][0]["text"],
              plain_text(completion(1)));
  }
  EXPECT_NE(notes.find("heads/0001"), std::string::npos) << notes;
  EXPECT_NE(notes.find(".damaged"), std::string::npos) << notes;
}

TEST(Learn, AHeadThatCannotBeMovedStaysAndIsUsedLater) {
  const LearnFolder folder;
  auto options = folder.options("cp -r " + kHead + " $out/head; echo > $out/../heads");
  options.drafter = "eagle3:head=" + folder.bad_head();
  options.learn->again = std::chrono::milliseconds(100);
  const TestServer server(options);
  for (int i = 0; i < 24; ++i) server.post("/v1/completions", completion(i));
  Json said;
  for (int i = 0; i < 3000 && !said.contains("problem"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    said = learning(server);
  }
  EXPECT_EQ(said["swaps"], 0) << said;
  EXPECT_EQ(said["rounds"], 0) << said;
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "learn/run/head"));
  std::filesystem::remove(folder.path() / "learn/heads");
  EXPECT_EQ(learn_a_round(server, 24)["swaps"], 1);
}

TEST(Learn, NothingIsReadOrTrainedBeforeTheMachineRests) {
  const LearnFolder folder;
  auto options = folder.options("exit 3");
  options.learn->rest = std::chrono::hours(1);
  const TestServer server(options);
  for (int i = 0; i < 24; ++i) server.post("/v1/completions", completion(i));
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  const Json said = learning(server);
  EXPECT_GT(said["fresh_tokens"], 100) << said;
  EXPECT_EQ(said["phase"], "gathering") << said;
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "learn/run"));
}

/// What a server leaves that is killed while its trainer writes the head.
TEST(Learn, AHeadThatWasCutOffIsExportedAgain) {
  const LearnFolder folder;
  auto options = folder.options("cp -r " + kHead + "/. $out/head");
  options.drafter = "eagle3:head=" + folder.bad_head();
  const auto head = folder.path() / "learn/run/head";
  std::filesystem::create_directories(head);
  std::filesystem::copy_file(kHead + "/model.safetensors", head / "model.safetensors");
  const TestServer server(options);
  EXPECT_EQ(learn_a_round(server)["swaps"], 1);
}

TEST(Learn, ARoundWhoseFolderCannotBeRemovedIsNotRepeatedAtOnce) {
  const LearnFolder folder;
  const std::string kept = folder.path() / "learn/run/kept";
  const auto options = folder.options(
      "mkdir $out/kept && touch $out/kept/file\n"
      "chmod 555 $out/kept; chattr +i $out/kept; exit 3");
  {
    const TestServer server(options);
    learn_a_round(server);
    if (!std::filesystem::exists(kept)) GTEST_SKIP() << "whoever runs this may remove all folders";
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    EXPECT_EQ(learning(server)["rounds"], 1);
  }
  const std::string free = "chattr -i " + kept + " 2>/dev/null; chmod 755 " + kept;
  EXPECT_EQ(std::system(free.c_str()), 0);
}

TEST(Learn, TwoServersDoNotShareAFolder) {
  const LearnFolder folder;
  const TestServer server(folder.options());
  EXPECT_THROW(TestServer{folder.options()}, Error);
}

}  // namespace
}  // namespace talon::test::learn_test
