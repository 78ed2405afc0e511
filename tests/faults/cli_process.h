#pragma once

#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace talon::test {

/// How the talon binary is run.
struct Start {
  std::vector<std::string> arguments = {};
  std::string input = {};                     // of standard input
  std::string input_file = {};                // where it comes from instead of `input`
  std::vector<std::string> environment = {};  // NAME=VALUE, added to the test's own
  std::string folder = {};                    // the current one; empty: the test's own
  std::size_t most_file_bytes = 0;   // no file may grow past this, as on a full disk; 0: no limit
  std::string output_file = {};      // where standard output goes instead of Outcome::output
  std::string notes_file = {};       // the same of standard error and Outcome::notes
  std::string interrupt_after = {};  // send a signal once standard error holds this
  std::function<bool()> interrupt_when = {};  // send it once this is true
  int interrupt_with = SIGINT;
};

struct Outcome {
  int code = -1;  // exit code, or 128 + signal
  std::string output;
  std::string notes;  // standard error
};

Outcome run_talon(const Start& start);
Outcome run_talon(std::vector<std::string> arguments);
/// A check of a test: it ended with `code` and said `part` on standard error.
void expect_said(const Outcome& outcome, int code, const std::string& part);

/// tests/data/models/stories260K.bin, a 260 K parameter model with its tokenizer beside it.
std::string small_model();
/// A chat model in downloads/, or empty if it was not pulled.
std::string chat_model();

/// A folder of its own, removed with everything in it.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  /// Writes a file there and returns its path.
  std::string write(const std::string& name, const std::string& content) const;
  /// Names of what lies there.
  std::vector<std::string> names() const;

 private:
  std::filesystem::path path_;
};

std::string read_file(const std::filesystem::path& path);

}  // namespace talon::test
