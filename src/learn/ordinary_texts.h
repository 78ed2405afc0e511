#pragma once

#include <filesystem>

#include "learn/text_ring.h"
#include "train/data/manifest.h"

namespace talon {

/// Answers to ordinary questions beside those of a server, so that a head that learns from these
/// does not forget the others.
std::filesystem::path ordinary_folder(const std::filesystem::path& folder);
/// Those that nothing is trained on.
std::filesystem::path ordinary_held_out_folder(const std::filesystem::path& folder);

/// Copies conversations of `from`, a folder of `talon train data`, below `folder`, unless they are
/// there: about `tokens` tokens of answers, spread over it, and one more in ten to be held out.
/// Throws Error for a folder that is none, is of another target, has other vectors or too few
/// conversations; then nothing is left of it.
void import_ordinary_texts(const std::filesystem::path& from, const std::filesystem::path& folder,
                           const Manifest& target, long tokens);

/// False where they are whole or there are none; else they are now ordinary.damaged, which is
/// noted. Reads all of them.
bool put_damaged_ordinary_texts_aside(const std::filesystem::path& folder, const LearnNote& note);

}  // namespace talon
