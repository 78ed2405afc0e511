#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/spec/spec_summary.h"
#include "report/table.h"

namespace talon {

/// The overall table: method, tok/s, speed-up with interval, the same with the prefill, worst
/// question, tau, draft nodes per check, same tokens. The first summary is plain decoding's.
Table spec_table(std::span<const MethodSummary> summaries);
/// What its columns mean.
inline constexpr std::string_view kSpecTableNote =
    "Brackets: 95 % intervals from a paired bootstrap over questions. tau: tokens per check. A "
    "question whose tokens are not those of plain decoding counts in no mean of a method that "
    "must give the same tokens; other engines calculate otherwise and are only marked.";

/// "18 questions · smollm2 · avx512_vnni, 2 threads · 2026-01-31T09:30Z · 1a2b3c4 · processor":
/// model, backend, date, commit and machine of the results' closing line.
std::string spec_subtitle(const Json& closing);

/// What reading the weights once per token would allow at the bandwidth that `closing` tells, and
/// how much of it plain decoding reached; empty if it tells none.
std::string spec_bound(const MethodSummary& plain, const Json& closing);

/// The table with all of the above, as Markdown.
std::string spec_markdown(std::span<const MethodSummary> summaries, const Json& closing);

/// A column per temperature, ascending: each method's speed-up over plain decoding at it with its
/// interval, tau and the worst question. Without rows if there is one temperature only.
Table temperature_table(std::span<const SpecCell> cells, const std::vector<std::string>& methods);

/// Whether all answers have the tokens of plain decoding: "yes", "2 of 5 differ", "NO: 2 of 5
/// differ" where they must have them, "1 failed".
std::string same_tokens(const MethodSummary& summary);

/// "1.38 [1.20, 1.51]".
std::string with_range(double value, const Interval& range);

}  // namespace talon
