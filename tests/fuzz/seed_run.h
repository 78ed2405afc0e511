#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace talon::fuzz {

/// Tries one situation, the same for the same seed: nothing, or what is wrong.
using Trial = std::function<std::optional<std::string>(std::uint64_t seed)>;

/// Tries seeds one after the other until time or number are used up. The command line, all of it
/// optional:
///   --seconds S      end after S seconds (20 when no number is given either)
///   --situations N   end after N situations, those of earlier runs with the same state included
///   --seed FIRST     the seeds are FIRST, FIRST + 1, ... (1)
///   --jobs J         processes at once (1); 0: in this process, for a debugger
///   --state FILE     where to go on, what was found and by which program (the hash of its file),
///                    written every few seconds; another program begins anew
/// `make` is called in each process. A process that dies or takes longer than a minute for one seed
/// is a finding, and another goes on behind it. Findings are printed with their seed; so are
/// situations per second. Returns the exit code: 0 without a finding, else 1; 2 for wrong usage.
int run_seeds(int argc, char** argv, const std::function<Trial()>& make);

}  // namespace talon::fuzz
