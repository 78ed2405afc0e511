#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "train/data/manifest.h"
#include "train/data/shard_writer.h"

namespace talon {

/// One text of so many is held out, to compare heads by.
inline constexpr std::size_t kHeldOutOf = 10;

using LearnNote = std::function<void(const std::string&)>;

/// A folder of training data (docs/formats.md) with the newest texts that a room on the disk holds:
/// beyond it the oldest file goes, an eighth of the room.
class TextRing {
 public:
  /// Goes on in a folder that is there, else makes it. Throws Error for one with data of another
  /// target, or that cannot be written.
  TextRing(std::filesystem::path folder, const Manifest& target, std::size_t room_bytes,
           const LearnNote& note);

  /// Throws Error when it cannot be written (a full disk): then the text is left out and the folder
  /// as whole as it was.
  void append(const Record& record);
  const std::filesystem::path& folder() const { return folder_; }

 private:
  void drop_oldest();

  std::filesystem::path folder_;
  std::size_t room_;
  std::unique_ptr<ShardWriter> writer_;
};

}  // namespace talon
