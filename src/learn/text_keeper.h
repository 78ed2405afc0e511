#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "learn/repeated_problem.h"
#include "learn/served_recorder.h"
#include "learn/text_ring.h"
#include "runtime/loaded_model.h"

namespace talon {

/// Where what a server learns from lies below its folder.
std::filesystem::path recent_folder(const std::filesystem::path& folder);
/// Texts that nothing is trained on.
std::filesystem::path held_out_folder(const std::filesystem::path& folder);

/// What training data of this model with these vectors says of it.
Manifest served_manifest(const LoadedModel& loaded, const std::vector<FeatureTap>& taps);

struct TextKeeperOptions {
  std::filesystem::path folder;
  std::size_t room_bytes = std::size_t{512} << 20;  // on the disk; a ninth of it for held-out texts
};

struct TextStatistics {
  long texts = 0;          // in the folder, held-out ones included
  long held_out = 0;       // texts that are never trained on
  long answer_tokens = 0;  // of all but the held-out ones, kept since the start
  long left_out = 0;       // too short, the same as one of the last, or more than could be written
  std::string problem = {};  // the last that kept one from being written, some minutes long
};

/// Keeps the texts of a server with the vectors that a draft head learns from: recorded on the
/// engine's thread, written on its own. One prompt in ten is held out, by its tokens, so that the
/// same prompt is never in both parts.
class TextKeeper {
 public:
  /// manifest: served_manifest(). Throws Error for a folder that cannot be written or has texts of
  /// another model.
  TextKeeper(const LoadedModel& loaded, const Manifest& manifest, const TextKeeperOptions& options,
             LearnNote note);
  /// Writes what is still to be written.
  ~TextKeeper();
  TextKeeper(const TextKeeper&) = delete;
  TextKeeper& operator=(const TextKeeper&) = delete;

  // On the engine's thread:
  CommitListener& listener() { return recorder_; }
  void began(SequenceId sequence, ServedAnswer answer);
  void ended(SequenceId sequence, bool failed);

  // From any thread:
  TextStatistics statistics() const;
  /// All that ended before is written when it returns.
  void flush();
  /// Reads all texts and puts damaged files aside. Throws Error if that fails.
  void drop_damaged();

 private:
  struct Kept {
    Record record;
    bool held_out = false;
  };
  void run();
  void write(const Kept& kept);
  bool is_new(const Record& record);
  void count_texts();

  LearnNote note_;
  ServedRecorder recorder_;
  std::mutex rings_;  // of the next two; taken before mutex_
  TextRing recent_, held_out_;
  std::map<SequenceId, ServedAnswer> answers_;
  std::deque<std::uint64_t> last_sums_;  // of the tokens of the last texts

  mutable std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::deque<Kept> queue_;
  RepeatedProblem recent_fails_, held_out_fails_;
  bool writing_ = false;
  bool stopping_ = false;
  TextStatistics statistics_;

  std::thread thread_;  // last: it uses all others
};

}  // namespace talon
