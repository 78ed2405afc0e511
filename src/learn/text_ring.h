#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "train/data/manifest.h"
#include "train/data/shard_writer.h"

namespace talon {

/// One text of so many is held out, to compare heads by.
inline constexpr std::size_t kHeldOutOf = 10;

using LearnNote = std::function<void(const std::string&)>;

/// The shards of a folder of training data that are damaged or cannot be read. Throws Error if its
/// manifest or the folder cannot be read.
std::vector<std::filesystem::path> damaged_shards(const std::filesystem::path& folder);

/// A folder of training data (docs/formats.md) with the newest texts that a room on the disk holds:
/// beyond it the oldest file goes, an eighth of the room. Damaged files are renamed to
/// NAME.damaged, which is noted; they are the first to go.
class TextRing {
 public:
  /// Goes on in a folder that is there, else makes it; what is damaged there is found as far as
  /// headers of files and texts tell. Throws Error for one with data of another target,
  /// or that cannot be written.
  TextRing(std::filesystem::path folder, const Manifest& target, std::size_t room_bytes,
           LearnNote note);

  /// Throws Error when it cannot be written (a full disk): then the text is left out and the folder
  /// as whole as it was.
  void append(const Record& record);
  /// Reads all of it and puts damaged files aside.
  void drop_damaged();
  /// In the folder.
  long texts() const;
  const std::filesystem::path& folder() const { return folder_; }

 private:
  void open();
  void forget_deleted(const std::vector<std::filesystem::path>& files);
  void drop_oldest();

  std::filesystem::path folder_;
  std::size_t room_;
  LearnNote note_;
  ShardKind kind_;
  std::unique_ptr<ShardWriter> writer_;
  std::map<std::filesystem::path, long> texts_;  // of each file
};

}  // namespace talon
