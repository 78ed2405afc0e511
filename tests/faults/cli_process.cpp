#include "cli_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <thread>

namespace talon::test {
namespace {

void redirect(int descriptor, const std::string& path, int flags) {
  const int file = open(path.c_str(), flags, 0600);
  if (file < 0 || dup2(file, descriptor) < 0) _exit(126);
  close(file);
}

/// In the child: becomes the binary. Does not return.
[[noreturn]] void become_talon(const Start& start, const Folder& folder,
                               const std::string& output) {
  redirect(STDIN_FILENO, start.input_file.empty() ? folder.file("input") : start.input_file,
           O_RDONLY);
  redirect(STDOUT_FILENO, output, O_WRONLY | O_CREAT | O_TRUNC);
  redirect(STDERR_FILENO, start.notes_file.empty() ? folder.file("notes") : start.notes_file,
           O_WRONLY | O_CREAT | O_TRUNC);
  if (start.most_file_bytes > 0) {
    const rlimit limit{start.most_file_bytes, start.most_file_bytes};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  signal(SIGHUP, SIG_DFL);  // which is ignored where the tests run under nohup
  if (!start.folder.empty() && chdir(start.folder.c_str()) != 0) _exit(126);
  for (const std::string& variable : start.environment) putenv(const_cast<char*>(variable.c_str()));
  std::vector<char*> arguments = {const_cast<char*>("talon")};
  for (const std::string& argument : start.arguments)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execv(TALON_BINARY, arguments.data());
  _exit(127);
}

void interrupt_once(pid_t child, const Folder& folder, const Start& start) {
  const auto is_time = [&] {
    if (start.interrupt_when) return start.interrupt_when();
    return read_file(folder.path() / "notes").find(start.interrupt_after) != std::string::npos;
  };
  bool came = is_time();
  for (int wait = 0; wait < 6000 && !came; ++wait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    came = is_time();
  }
  EXPECT_TRUE(came) << "what the signal waits for";
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  kill(child, start.interrupt_with);
}

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Outcome run_talon(const Start& start) {
  const Folder folder;
  folder.write("input", start.input);
  const std::string output = start.output_file.empty() ? folder.file("output") : start.output_file;
  const pid_t child = fork();
  if (child == 0) become_talon(start, folder, output);
  if (!start.interrupt_after.empty() || start.interrupt_when) {
    interrupt_once(child, folder, start);
  }
  int status = 0;
  waitpid(child, &status, 0);
  Outcome outcome;
  outcome.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  if (start.output_file.empty()) outcome.output = read_file(output);
  outcome.notes = read_file(folder.path() / "notes");
  return outcome;
}

Outcome run_talon(std::vector<std::string> arguments) {
  return run_talon(Start{.arguments = std::move(arguments)});
}

void expect_said(const Outcome& outcome, int code, const std::string& part) {
  EXPECT_EQ(outcome.code, code) << outcome.notes;
  EXPECT_NE(outcome.notes.find(part), std::string::npos) << outcome.notes;
}

std::string small_model() { return TALON_TEST_DATA "/models/stories260K.bin"; }

std::string chat_model() {
  const std::string path = TALON_DOWNLOADS "/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
  return std::filesystem::exists(path) ? path : "";
}

Folder::Folder() {
  std::string name = (std::filesystem::temp_directory_path() / "talon-cli-XXXXXX").string();
  if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
  path_ = name;
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string Folder::write(const std::string& name, const std::string& content) const {
  std::ofstream(path_ / name, std::ios::binary) << content;
  return file(name);
}

std::vector<std::string> Folder::names() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path_))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace talon::test
