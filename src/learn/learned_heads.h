#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "learn/learn_state.h"
#include "learn/learning_head.h"
#include "learn/text_ring.h"

namespace talon {

/// Whether the trainer's folder holds a head, all of it.
bool is_whole_head(const std::filesystem::path& folder);

/// Where `form` is of four bits, the trainer's head becomes head.gguf in its folder and takes the
/// place of what the trainer wrote; a second call does nothing. target: the model's files. Wherever
/// it is cut off, a whole head is there, and the next call goes on. Throws Error.
void bring_into_form(const std::filesystem::path& folder, const std::filesystem::path& target,
                     const HeadForm& form);

/// Moves a trained head below `folder` under a name of its own, so that a head in use never changes
/// its files, and returns the state that names it, as written. Where that throws Error (a full
/// disk) the head and the state are where they were.
LearnState adopt_head(const std::filesystem::path& folder, const std::filesystem::path& trained,
                      const LearnState& state);

/// Deletes all heads but the one that the state names and `before`.
void drop_other_heads(const std::filesystem::path& folder, const LearnState& state,
                      const std::string& before);

/// The name of the head to begin with: the one that the state names; if `check` throws for it, the
/// newest one that is left and passes; else "", the first head. What cannot be used is noted.
std::string usable_head(const std::filesystem::path& folder, const LearnState& state,
                        const std::function<void(const std::filesystem::path&)>& check,
                        const LearnNote& note);

}  // namespace talon
