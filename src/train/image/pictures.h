#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "io/checkpoint.h"

namespace talon {

/// A picture of the data set of scripts/icons.mjs.
struct PictureFacts {
  int style = 0;           // index into PictureSet::styles
  int category = 0;        // index into PictureSet::categories
  std::vector<int> words;  // indices into PictureSet::words; words that are too rare are left out
  std::string name;        // all its words, joined by hyphens
  bool held_out = false;   // not trained on
  bool may_be_mirrored = true;  // its mirror image shows the same thing
};

/// The data set, in memory as its file has it. Move-only.
class PictureSet {
 public:
  /// Reads FOLDER/pictures.safetensors, index.jsonl and words.json. Throws Error naming the file
  /// and the line.
  explicit PictureSet(const std::filesystem::path& folder);

  int side() const { return side_; }
  std::size_t size() const { return facts_.size(); }
  const PictureFacts& facts(std::size_t picture) const { return facts_[picture]; }
  /// [side, side, 3], rows from the top, red, green, blue.
  std::span<const std::uint8_t> pixels(std::size_t picture) const;

  const std::vector<std::string>& styles() const { return styles_; }
  const std::vector<std::string>& categories() const { return categories_; }
  const std::vector<std::string>& words() const { return words_; }
  /// The pictures that are, or are not, held out, in the file's order.
  std::vector<std::size_t> split(bool held_out) const;
  /// A hash of the index, and one of pixels, styles and words, so that a run is not gone on with
  /// other data. The second reads all pixels (130 MB: some tenths of a second).
  const std::string& sha256() const { return sha256_; }
  std::string contents_sha256() const;

 private:
  void read_words(const std::filesystem::path& file);
  void read_index(const std::filesystem::path& file);

  Checkpoint file_;
  std::span<const std::byte> bytes_;
  int side_ = 0;
  std::vector<PictureFacts> facts_;
  std::vector<std::string> styles_, categories_, words_;
  std::string sha256_;
};

}  // namespace talon
