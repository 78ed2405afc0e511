#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include "cli_process.h"

// Conversations, and what a terminal shows of answers.
namespace talon::test::cli_chat_test {
namespace {

TEST(Chat, KeepsTheConversationInTheCacheAndObeysCommands) {
  const std::string model = chat_model();
  if (model.empty()) GTEST_SKIP() << "smollm2 was not pulled";
  const Outcome outcome = run_talon(Start{
      .arguments = {"chat", "-m", model, "-n", "40"},
      .input =
          "Tell me about the sea.\nAnd about rivers, in a few words?\n/stats\n/reset\n/bogus\n"});
  EXPECT_EQ(outcome.code, 0) << outcome.notes;
  EXPECT_NE(outcome.notes.find("found in the cache)"), std::string::npos) << outcome.notes;
  EXPECT_EQ(outcome.notes.find("(0 found in the cache)"), std::string::npos) << outcome.notes;
  EXPECT_NE(outcome.notes.find("the conversation is forgotten"), std::string::npos);
  EXPECT_NE(outcome.notes.find("no such command: /bogus"), std::string::npos);
}

TEST(Chat, AnswersTheSameWithoutTheCacheOfEarlierTurns) {
  const std::string model = chat_model();
  if (model.empty()) GTEST_SKIP() << "smollm2 was not pulled";
  const std::string input = "Tell me about the sea.\nAnd about rivers, in a few words?\n/stats\n";
  const Outcome with =
      run_talon(Start{.arguments = {"chat", "-m", model, "-n", "40"}, .input = input});
  const Outcome without = run_talon(
      Start{.arguments = {"chat", "-m", model, "-n", "40", "--no-reuse"}, .input = input});
  EXPECT_EQ(without.code, 0) << without.notes;
  EXPECT_NE(without.notes.find("(0 found in the cache)"), std::string::npos) << without.notes;
  EXPECT_EQ(without.output, with.output);
}

TEST(Chat, FindsAllOfTheEarlierTurnsInTheCacheHoweverTheyWereTokenized) {
  const std::string model = chat_model();
  if (model.empty()) GTEST_SKIP() << "smollm2 was not pulled";
  // At this temperature some words come as other tokens than their text is encoded to.
  const Outcome outcome = run_talon(
      Start{.arguments = {"chat", "-m", model, "-n", "200", "--temperature", "1.5", "--seed", "4"},
            .input = "Say a few odd words.\nAnd now?\n/stats\n"});
  ASSERT_EQ(outcome.code, 0) << outcome.notes;
  int prompt = 0, found = 0;
  const std::size_t at = outcome.notes.rfind("prompt ");
  ASSERT_NE(at, std::string::npos) << outcome.notes;
  ASSERT_EQ(std::sscanf(outcome.notes.c_str() + at, "prompt %d tokens (%d found", &prompt, &found),
            2);
  EXPECT_GE(found, (prompt - 20) / 64 * 64) << outcome.notes;  // whole pages; 20 are new
}

TEST(Chat, AMessageThatIsTooLongLeavesTheConversationAsItWas) {
  const std::string model = chat_model();
  if (model.empty()) GTEST_SKIP() << "smollm2 was not pulled";
  const auto chat = [&](const std::string& between) {
    return run_talon(Start{.arguments = {"chat", "-m", model, "-n", "20", "--context", "256"},
                           .input = "What is rain?\r\n" + between + "Why?\n/exit now\nAnd?\n"});
  };
  std::string endless;
  for (int i = 0; i < 400; ++i) endless += "word ";
  const Outcome plain = chat(""), refused = chat(endless + "\n");
  EXPECT_NE(refused.notes.find("the message has"), std::string::npos) << refused.notes;
  EXPECT_EQ(refused.output, plain.output);
  EXPECT_EQ(refused.notes.find("no such command"), std::string::npos) << refused.notes;
}

TEST(Chat, EndsWhenItsOutputTakesNoMore) {
  const std::string model = chat_model();
  if (model.empty()) GTEST_SKIP() << "smollm2 was not pulled";
  const Outcome outcome = run_talon(Start{.arguments = {"chat", "-m", model, "-n", "8"},
                                          .input = "Hello!\nAnd then?\n",
                                          .output_file = "/dev/full"});
  EXPECT_EQ(outcome.code, 1) << outcome.notes;
  EXPECT_NE(outcome.notes.find("No space left"), std::string::npos) << outcome.notes;
}

TEST(Chat, ForgetsTheOldestTurnsWhenTheContextIsFull) {
  const std::string model = chat_model();
  if (model.empty()) GTEST_SKIP() << "smollm2 was not pulled";
  const Outcome outcome =
      run_talon(Start{.arguments = {"chat", "-m", model, "-n", "30", "--context", "128"},
                      .input = "What is rain?\nWhat is snow?\nWhat is ice?\nWhat is fog?\n"});
  EXPECT_EQ(outcome.code, 0) << outcome.notes;
  EXPECT_NE(outcome.notes.find("oldest turn is forgotten"), std::string::npos) << outcome.notes;
}

TEST(Chat, ForgetsTheOldestTurnsWhenTheCacheIsFull) {
  const std::string model = chat_model();
  if (model.empty()) GTEST_SKIP() << "smollm2 was not pulled";
  const Outcome outcome = run_talon(
      Start{.arguments = {"chat", "-m", model, "-n", "30", "--cache-mb", "3", "-d", "none"},
            .input = "What is rain?\nWhat is snow?\nWhat is ice?\nWhat is fog?\n"});
  EXPECT_EQ(outcome.code, 0) << outcome.notes;
  EXPECT_NE(outcome.notes.find("the cache (--cache-mb) of 128 tokens is full: the 1 oldest turn"),
            std::string::npos)
      << outcome.notes;
  EXPECT_EQ(outcome.notes.find("talon: "), std::string::npos) << outcome.notes;
}

TEST(Chat, TakesWhatStandsBetweenQuotesAsOneMessage) {
  const std::string model = chat_model();
  if (model.empty()) GTEST_SKIP() << "smollm2 was not pulled";
  const auto chat = [&](const std::string& input) {
    return run_talon(Start{.arguments = {"chat", "-m", model, "-n", "20"}, .input = input});
  };
  const std::string quotes = "\"\"\"";
  const Outcome beside = chat(quotes + "What is rain?\n/reset\nAnd snow?" + quotes + "\n");
  EXPECT_EQ(beside.code, 0) << beside.notes;
  EXPECT_EQ(beside.notes.find("is forgotten"), std::string::npos) << beside.notes;
  const Outcome apart =
      chat(quotes + "\r\nWhat is rain?\r\n/reset\r\nAnd snow?\r\n" + quotes + "\r\n");
  EXPECT_EQ(apart.output, beside.output);
  EXPECT_EQ(chat(quotes + "Why?" + quotes + "\n").output, chat("Why?\n").output);
  const Outcome open = chat(quotes + "What is rain?\n");
  EXPECT_EQ(open.output, "");
  expect_said(open, 0, "expected " + quotes + " at the end of a text");
}

/// A terminal that a program reads from and writes to.
class Terminal {
 public:
  Terminal() : master_(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    if (master_ < 0 || grantpt(master_) != 0 || unlockpt(master_) != 0)
      throw std::runtime_error("no terminal");
  }
  ~Terminal() { close(master_); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  std::string file() const { return ptsname(master_); }
  void type(std::string_view keys) const {
    EXPECT_EQ(write(master_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  void set_columns(unsigned short columns) const {
    const winsize size = {24, columns, 0, 0};
    EXPECT_EQ(ioctl(master_, TIOCSWINSZ, &size), 0);
  }
  /// Waits for `part` behind what the last such call found; false if it does not come.
  bool shows(std::string_view part, std::chrono::seconds patience) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (std::chrono::steady_clock::now() < end) {
      if (const std::size_t at = shown_.find(part); at != std::string::npos) {
        shown_.erase(0, at + part.size());
        return true;
      }
      pollfd source = {master_, POLLIN, 0};
      char piece[4096];
      const bool has_more = poll(&source, 1, 100) > 0;
      const ssize_t count = has_more ? read(master_, piece, sizeof(piece)) : 0;
      if (count > 0) shown_.append(piece, static_cast<std::size_t>(count));
      if (count < 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));  // nobody has it
    }
    return false;
  }
  /// What was written so far. REQUIRES: the program has ended.
  std::string text() const {
    std::string text;
    char piece[4096];
    for (ssize_t count = 0; (count = read(master_, piece, sizeof(piece))) > 0;)
      text.append(piece, static_cast<std::size_t>(count));
    return text;
  }

 private:
  int master_;
  std::string shown_;  // that shows() has not found yet
};

TEST(Terminal, DrawsALineAgainThatIsTypedWhileItsSizeChanges) {
  const std::string model = chat_model();
  if (model.empty()) GTEST_SKIP() << "smollm2 was not pulled";
  using std::chrono::seconds;
  Terminal terminal;
  std::atomic<bool> is_typed = false;
  bool is_echoed = false, is_drawn = false;
  std::thread typist([&] {
    terminal.shows("leaves", seconds(50));  // what is typed to the line's editor, not before it
    terminal.shows(">", seconds(5));
    terminal.type("Hello");
    is_echoed = terminal.shows("Hello", seconds(5));
    terminal.set_columns(40);
    is_typed = true;
    is_drawn = terminal.shows("Hello", seconds(10));
    terminal.type("\x15\x04");  // Ctrl-U, Ctrl-D: without the line, to the end
  });
  const Outcome outcome = run_talon(Start{.arguments = {"chat", "-m", model},
                                          .input_file = terminal.file(),
                                          .environment = {"TERM=xterm"},
                                          .notes_file = terminal.file(),
                                          .interrupt_when = [&] { return is_typed.load(); },
                                          .interrupt_with = SIGWINCH});
  typist.join();
  EXPECT_TRUE(is_echoed);
  EXPECT_TRUE(is_drawn);
  EXPECT_EQ(outcome.code, 0);
}

std::string shown_with(std::vector<std::string> environment) {
  const Terminal terminal;
  const Outcome outcome = run_talon({.arguments = {"run", "-m", small_model(), "-p", "Once", "-n",
                                                   "60", "-d", "ngram@policy=fixed"},
                                     .environment = std::move(environment),
                                     .output_file = terminal.file()});
  EXPECT_EQ(outcome.code, 0) << outcome.notes;
  return terminal.text() + outcome.notes;
}

TEST(Terminal, MarksAcceptedTokensUnlessTheEnvironmentWantsNone) {
  const std::string mark = "\x1b[1;32m";
  EXPECT_NE(shown_with({"NO_COLOR=", "TERM=xterm"}).find(mark), std::string::npos);
  EXPECT_EQ(shown_with({"NO_COLOR=1", "TERM=xterm"}).find(mark), std::string::npos);
  EXPECT_EQ(shown_with({"NO_COLOR=", "TERM=dumb"}).find(mark), std::string::npos);
}

TEST(Terminal, TellsAFileOfNotesWithoutColoursWhatMarksMean) {
  const Terminal terminal;
  const Outcome outcome = run_talon(Start{.arguments = {"run", "-m", small_model(), "-p", "Once",
                                                        "-n", "60", "-d", "ngram@policy=fixed"},
                                          .environment = {"NO_COLOR=", "TERM=xterm"},
                                          .output_file = terminal.file()});
  expect_said(outcome, 0, "green: drafted and accepted");
  EXPECT_EQ(outcome.notes.find('\x1b'), std::string::npos) << outcome.notes;
}

}  // namespace
}  // namespace talon::test::cli_chat_test
