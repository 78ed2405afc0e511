#include "learn/learner.h"

#include <utility>

namespace talon {

Learner::Learner(const LoadedModel& loaded, LearnOptions options)
    : lock_(options.folder),
      texts_(loaded, {options.folder, options.room_bytes}, std::move(options.note)) {}

}  // namespace talon
