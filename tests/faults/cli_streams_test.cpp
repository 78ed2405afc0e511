#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "cli_process.h"

// Standard streams that are closed, that nobody reads, or whose reader has left.
namespace talon::test::cli_streams_test {
namespace {

int code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string quoted(const std::string& path) { return "'" + path + "'"; }

/// What `talon run` with these words of a shell comes to.
int run_in_shell(const std::string& words) {
  const std::string command =
      quoted(TALON_BINARY) + " run -m " + quoted(small_model()) + " -p Once -n 8 -d ngram " + words;
  return code_of(std::system(command.c_str()));
}

void expect_json_lines(const std::string& text) {
  EXPECT_FALSE(text.empty());
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    EXPECT_TRUE(nlohmann::json::accept(line)) << line;
}

TEST(ClosedStreams, TheAnswerDoesNotGoIntoAFileThatIsWritten) {
  const Folder folder;
  const std::string trace = folder.file("trace.jsonl"), notes = folder.file("notes");
  EXPECT_EQ(run_in_shell("--trace " + quoted(trace) + " >&- 2> " + quoted(notes)), 1);
  const std::string said = read_file(notes);
  EXPECT_NE(said.find("write to standard output: Bad file descriptor"), std::string::npos) << said;
  expect_json_lines(read_file(trace));
}

TEST(ClosedStreams, NotesDoNotGoIntoAFileThatIsWritten) {
  const Folder folder;
  const std::string trace = folder.file("trace.jsonl");
  EXPECT_EQ(run_in_shell("--compare --trace " + quoted(trace) + " > /dev/null 2>&-"), 0);
  expect_json_lines(read_file(trace));
}

TEST(BlockedOutput, ASignalEndsAProgramWhoseOutputNobodyTakes) {
  const Folder folder;
  const std::string pipe = folder.file("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  std::string ids;
  for (int i = 0; i < 500; ++i) ids += "403 ";
  const auto has_begun = [reader] {
    int bytes = 0;
    return ioctl(reader, FIONREAD, &bytes) == 0 && bytes >= 4096;
  };
  std::mutex mutex;
  std::condition_variable_any ended;
  const std::jthread watch([&](const std::stop_token& stop) {  // a program that goes on would wait
    std::unique_lock lock(mutex);
    ended.wait_for(lock, stop, std::chrono::seconds(60), [] { return false; });
    close(reader);
  });
  const Outcome outcome = run_talon(
      Start{.arguments = {"score", "-m", small_model(), "--ids", "-f", folder.write("ids", ids),
                          "--top", "512", "--json"},  // megabytes
            .output_file = pipe,
            .interrupt_when = has_begun,
            .interrupt_with = SIGTERM});
  expect_said(outcome, 130, "interrupted while nobody took it");
}

TEST(Serve, GoesOnWhenTheReaderOfItsNotesHasLeft) {
  const std::string model = small_model();
  int notes[2] = {};
  ASSERT_EQ(pipe2(notes, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGPIPE, SIG_DFL);
    dup2(notes[1], STDERR_FILENO);
    execl(TALON_BINARY, "talon", "serve", "-m", model.c_str(), "--port", "0", "--cache-mb", "1",
          static_cast<char*>(nullptr));
    _exit(127);
  }
  close(notes[1]);
  std::string said;
  char piece[256];
  while (said.find("listening on") == std::string::npos) {
    const ssize_t count = read(notes[0], piece, sizeof(piece));
    ASSERT_GT(count, 0) << said;
    said.append(piece, static_cast<std::size_t>(count));
  }
  close(notes[0]);
  kill(child, SIGTERM);  // it says that it ends
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(code_of(status), 0);
}

}  // namespace
}  // namespace talon::test::cli_streams_test
