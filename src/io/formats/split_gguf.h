#pragma once

#include "io/checkpoint.h"

namespace talon {

/// Adds the other files of a GGUF model that is cut into several (NAME-00001-of-00003.gguf, keys
/// split.no, split.count, split.tensors.count), if `first` is the first of such. Throws Error if it
/// is another one, or one is missing or does not belong to it.
void append_splits(Checkpoint& first);

}  // namespace talon
