#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <exception>
#include <filesystem>
#include <sstream>

#include "cli/command.h"
#include "cli/options/command_words.h"
#include "cli/options/flags.h"
#include "cli/terminal/console.h"
#include "core/error.h"
#include "runtime/machine.h"

namespace {

/// The parser would only say that some command is needed.
void check_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) {
    names.push_back(command->get_name());
    if (names.back() == argv[1]) return;
  }
  talon::fail_choice("command", names, argv[1]);
}

/// The command that the words so far name, `bench spec`, and its options.
const CLI::App& chosen_command(const CLI::App& app, std::string& name) {
  for (const CLI::App* command : app.get_subcommands()) {
    name += " " + command->get_name();
    return chosen_command(*command, name);
  }
  return app;
}

/// What the parser found wrong, said as all else is. Help and version are asked for, no mistakes.
int explain(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) {
    std::ostringstream help;
    const int code = app.exit(error, help, help);
    talon::write_output(help.str());
    return code;
  }
  std::string name;
  const CLI::App& command = chosen_command(app, name);
  const std::string extras = fmt::format("{}", fmt::join(command.remaining(true), " "));
  std::string problem = error.what();
  if (const auto subcommands = command.get_subcommands({}); !subcommands.empty()) {
    std::vector<std::string> words;
    for (const CLI::App* one : subcommands) words.push_back(one->get_name());
    problem = fmt::format("expected a subcommand, {}, got \"{}\"", talon::one_of(words), extras);
  } else if (!extras.empty()) {
    problem = fmt::format("expected no \"{}\"", extras);
  }
  talon::note("talon{}: {} (talon{} --help lists what there is)", name, problem, name);
  return talon::kExitUsage;
}

int run_chosen(CLI::App& app, int argc, char** argv) {
  const auto commands = talon::make_commands(app);
  check_command(app, argc, argv);
  try {
    app.parse(talon::command_words(app, argc, argv));
  } catch (const CLI::ParseError& error) {
    return explain(app, error);
  }
  for (const auto& command : commands) {
    if (command->chosen()) return command->run();
  }
  return talon::kExitUsage;
}

}  // namespace

int main(int argc, char** argv) {
  talon::hold_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is then an ordinary error of its write
  try {
    CLI::App app("Talon: exact speculative decoding of large language models", "talon");
    app.set_version_flag("--version",
                         fmt::format("talon {} ({})", TALON_VERSION_TEXT, talon::build_commit()),
                         "the version and the commit it is built from");
    app.require_subcommand(1);
    return run_chosen(app, argc, argv);
  } catch (const talon::UsageError& error) {
    talon::note("talon: {}", error.what());
    return talon::kExitUsage;
  } catch (const talon::OutputInterrupted& error) {
    talon::note("talon: {}", error.what());
    return talon::kExitInterrupted;
  } catch (const talon::Error& error) {
    talon::note("talon: {}", error.what());
  } catch (const talon::Bug& bug) {
    talon::note(
        "talon: this is a bug in Talon, please report it with the command that led here: {}",
        bug.what());
  } catch (const std::bad_alloc&) {
    talon::note("talon: out of memory");
  } catch (const std::filesystem::filesystem_error& error) {  // of a path that cannot be looked at
    talon::note("talon: {}: {}", error.path1().string(), error.code().message());
  } catch (const std::exception& error) {
    talon::note("talon: unexpected: {}", error.what());
  }
  return talon::kExitFailed;
}
