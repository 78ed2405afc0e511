#pragma once

#include <string>

#include "io/json.h"
#include "runtime/answerer.h"

namespace talon {

/// "312.4 tok/s, tau 1.84" of one answer.
std::string speed_text(const Answer& answer);
/// Milliseconds of an answer and its parts, for --stats.
std::string statistics_text(const Answer& answer);

/// The fields of `talon run --json` that describe the answer and how it came about.
Json answer_json(const Answer& answer, const DecodeSettings& settings);

/// How much faster `drafted` decoded than `plain` (both after their prefill); 0 when either is too
/// short to say.
double speed_up(const Answer& drafted, const Answer& plain);

}  // namespace talon
