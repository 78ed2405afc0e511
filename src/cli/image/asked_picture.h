#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "draw/picture_prompt.h"
#include "runtime/loaded_model.h"

namespace talon {

/// What a line of a file of prompts asks for.
struct AskedPicture {
  std::string shown;              // in files and reports
  PicturePrompt prompt;           // of a caption the tokens alone
  std::filesystem::path caption;  // file of features; empty: another prompt
  std::string caption_hash;       // of that file; empty: another prompt

  /// The whole prompt; of a caption it is computed here. Throws Error if its file has changed.
  PicturePrompt whole(const LoadedModel& loaded) const;
};

/// {"prompt": TEXT}, {"class": NUMBER or NAME} or {"caption_features": FILE}. Throws UsageError or
/// Error that begins with `doing`, for an object with none or several of them and for a prompt that
/// the model does not take.
AskedPicture read_asked_picture(const LoadedModel& loaded, const Json& line,
                                const std::string& doing);

/// What else a line of a file of prompts says. Throws UsageError that begins with `doing`.
class LineSettings {
 public:
  /// Refuses what is no object and keys that are not among `keys`. Borrows the line.
  LineSettings(const Json& line, std::span<const std::string_view> keys, std::string doing);

  std::uint64_t seed(std::uint64_t usual) const;
  float guidance(float usual) const;
  int guidance_tokens(int usual) const;
  /// Null if it is not there or null.
  const Json* find(std::string_view key) const;
  [[noreturn]] void refuse(std::string_view expected, std::string_view found) const;

 private:
  const Json& line_;
  std::string doing_;
};

/// Whether a line of a file of prompts says nothing.
bool is_blank(std::string_view line);

}  // namespace talon
