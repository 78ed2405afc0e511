#pragma once

#include <filesystem>
#include <memory>

#include "learn/folder_turn.h"
#include "learn/text_keeper.h"

namespace talon {

struct LearnOptions {
  std::filesystem::path folder;  // of all that is kept; made if it is missing
  std::size_t room_bytes = TextKeeperOptions{}.room_bytes;
  LearnNote note = [](const std::string&) {};
};

struct LearnStatistics {
  TextStatistics texts;
};

/// What a server does to draft better for those whom it serves (docs/serving.md): it keeps the
/// texts that it writes, with the vectors that a head learns from.
class Learner {
 public:
  /// `loaded` is borrowed. Throws Error for a folder that cannot be used, or that another server
  /// uses.
  Learner(const LoadedModel& loaded, LearnOptions options);

  // On the engine's thread:
  CommitListener& listener() { return texts_.listener(); }
  void began(SequenceId sequence, ServedAnswer answer) {
    texts_.began(sequence, std::move(answer));
  }
  void ended(SequenceId sequence, bool failed) { texts_.ended(sequence, failed); }

  // From any thread:
  LearnStatistics statistics() const { return {texts_.statistics()}; }

 private:
  FolderTurn lock_;
  TextKeeper texts_;
};

}  // namespace talon
