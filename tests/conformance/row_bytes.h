#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/test_model.h"

namespace talon::test {

/// Computes the logits of every position of a text in many ways (whole, in chunks of 7, row by row,
/// as paths of random trees, beside other sequences) and compares the rows as bytes. Returns the
/// ways that differ, or nothing.
std::vector<std::string> differing_rows(TestModel& model, std::uint32_t seed, int text_length = 60);

}  // namespace talon::test
