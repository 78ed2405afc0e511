#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace talon {

/// Words of a command line as CLI::App::parse() takes them, which is from the last on. `--name=` of
/// an option with a value is two: CLI11 before 2.2 takes the word behind it for an empty value.
/// app: whose commands have all their options.
std::vector<std::string> command_words(const CLI::App& app, int argc, const char* const* argv);

}  // namespace talon
