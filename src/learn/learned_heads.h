#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "learn/learn_state.h"
#include "learn/text_ring.h"

namespace talon {

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
