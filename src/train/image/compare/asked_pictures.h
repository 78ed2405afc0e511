#pragma once

#include <torch/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "train/image/pictures.h"

namespace talon {

/// Which pictures of a data set the prompts of scripts/icon_prompts.py ask for.
class PicturesByPrompt {
 public:
  /// Borrows the pictures.
  explicit PicturesByPrompt(const PictureSet& pictures);
  /// Words that the data know, at most five, and the style; empty without such words.
  std::string prompt_of(std::size_t picture) const;
  /// Held-out ones first, if there are such. Empty if none is asked for by it.
  const std::vector<std::size_t>& of(const std::string& prompt) const;

 private:
  const PictureSet& pictures_;
  std::map<std::string, std::vector<std::size_t>, std::less<>> pictures_of_;
};

/// Pictures and what was asked for.
struct AskedPictures {
  torch::Tensor pictures;            // [count, 3, side, side], from -1 to 1
  std::vector<std::size_t> wanted;   // of each, the picture of the data set with its facts
  std::vector<std::string> prompts;  // of each
};

/// The PNG files of a folder, by name. Throws Error naming the file.
AskedPictures read_drawn(const std::filesystem::path& folder, const PictureSet& data,
                         const PicturesByPrompt& by_prompt);

}  // namespace talon
