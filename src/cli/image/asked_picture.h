#pragma once

#include <filesystem>
#include <string>

#include "draw/picture_prompt.h"
#include "runtime/loaded_model.h"

namespace talon {

/// What a line of a file of prompts asks for.
struct AskedPicture {
  std::string shown;              // in files and reports
  PicturePrompt prompt;           // of a caption the tokens alone
  std::filesystem::path caption;  // of features; empty: another prompt

  /// The whole prompt; of a caption it is computed here.
  PicturePrompt whole(const LoadedModel& loaded) const;
};

/// {"prompt": TEXT}, {"class": NUMBER or NAME} or {"caption_features": FILE}. Throws UsageError or
/// Error that begins with `doing`, for an object with none or several of them and for a prompt that
/// the model does not take.
AskedPicture read_asked_picture(const LoadedModel& loaded, const Json& line,
                                const std::string& doing);

}  // namespace talon
