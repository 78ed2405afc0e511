#include <fmt/ranges.h>

#include "cli/command.h"
#include "cli/options/flags.h"
#include "cli/terminal/console.h"

namespace talon {
namespace {

constexpr const char* kScriptBegin =
    R"sh(# Completion of talon's command line: talon completion bash
_talon() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  local command=talon commands= options= valued= i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$command ${COMP_WORDS[i]}" in
)sh";
constexpr const char* kScriptMiddle = R"sh(    esac
  done
  case $command in
)sh";
/// Files are completed where there are no words: of values and of what stands alone.
constexpr const char* kScriptEnd = R"sh(  esac
  [[ $word == -* ]] && commands=$options
  [[ $valued == *" $before "* ]] && commands=
  COMPREPLY=($(compgen -W "$commands" -- "$word"))
}
complete -o default -F _talon talon
)sh";

/// A command, as the words that lead to it, and what may follow them.
struct Completed {
  std::string words;  // talon bench spec
  std::vector<std::string> commands, options;
  std::vector<std::string> valued;  // of the options those that a value follows
};

/// Adds `app`, whose name follows the words `above`, and the commands below it.
void collect_commands(const CLI::App& app, const std::string& above, std::vector<Completed>& all) {
  Completed completed;
  completed.words = above + app.get_name();
  for (const CLI::Option* option : app.get_options()) {
    std::vector<std::string> names;
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    std::vector<std::string>& options = completed.options;
    options.insert(options.end(), names.begin(), names.end());
    if (option->get_items_expected_min() < 1) continue;
    completed.valued.insert(completed.valued.end(), names.begin(), names.end());
  }
  const std::vector<const CLI::App*> below = app.get_subcommands({});
  for (const CLI::App* command : below) completed.commands.push_back(command->get_name());
  all.push_back(completed);
  for (const CLI::App* command : below) collect_commands(*command, completed.words + " ", all);
}

std::string bash_script(const CLI::App& program) {
  std::vector<Completed> all;
  collect_commands(program, "", all);
  std::vector<std::string> paths;
  std::string cases;
  for (const Completed& one : all) {
    if (&one != &all.front()) paths.push_back("'" + one.words + "'");
    cases += fmt::format("    '{}') commands='{}' options='{}' valued=' {} ' ;;\n", one.words,
                         fmt::join(one.commands, " "), fmt::join(one.options, " "),
                         fmt::join(one.valued, " "));
  }
  const std::string deeper =
      fmt::format("      {}) command+=\" ${{COMP_WORDS[i]}}\" ;;\n", fmt::join(paths, " | "));
  return kScriptBegin + deeper + kScriptMiddle + cases + kScriptEnd;
}

class Completion : public Command {
 public:
  explicit Completion(CLI::App& parent)
      : Command(parent.add_subcommand(
            "completion", "print a script with which a shell completes commands and options")),
        parent_(parent) {
    app_->add_option("shell", shell_, "bash")->type_name("SHELL")->required();
  }

  int run() override {
    if (shell_ != "bash") fail_choice("completion: shell", {"bash"}, shell_);
    write_output(bash_script(parent_));
    return kExitDone;
  }

 private:
  CLI::App& parent_;
  std::string shell_;
};

}  // namespace

std::unique_ptr<Command> make_completion(CLI::App& parent) {
  return std::make_unique<Completion>(parent);
}

}  // namespace talon
