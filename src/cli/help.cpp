#include "cli/command.h"
#include "cli/options/flags.h"
#include "cli/terminal/console.h"
#include "draft/registry.h"
#include "tree/policy_registry.h"
#include "verify/verifier.h"

namespace talon {
namespace {

std::string entry_text(std::string_view name, std::string_view summary,
                       std::span<const Option> options) {
  std::string text = fmt::format("  {:<12} {}\n", name, summary);
  for (const Option& option : options) {
    const bool is_free = std::holds_alternative<FreeText>(option.kind);
    text += fmt::format("  {:<12}   {:<18} {}{}\n", "", usage_of(option), option.meaning,
                        is_free ? "" : ": " + expected_of(option.kind));
  }
  return text;
}

template <typename Entry>
std::string table_text(std::span<const Entry> entries) {
  std::string text;
  for (const Entry& entry : entries) text += entry_text(entry.name, entry.summary, entry.options);
  return text;
}

template <typename Entry>
Json table_json(std::span<const Entry> entries) {
  Json rows = Json::array();
  for (const Entry& entry : entries) {
    Json options = Json::array();
    for (const Option& option : entry.options) {
      options.push_back({{"name", option.name},
                         {"default", option.usual},
                         {"expected", expected_of(option.kind)},
                         {"meaning", option.meaning},
                         {"required", option.required}});
    }
    rows.push_back(
        {{"name", entry.name}, {"summary", entry.summary}, {"options", std::move(options)}});
  }
  return rows;
}

class Help : public Command {
 public:
  explicit Help(CLI::App& parent)
      : Command(parent.add_subcommand("help", "about the program, a command, or `methods`")),
        parent_(parent) {
    app_->add_option("topic", topic_,
                     "a command (run, bench spec), or methods: the drafters, policies and rules "
                     "that exist")
        ->type_name("TOPIC");
    app_->add_flag("--json", json_, "print one JSON object (methods)");
  }

  int run() override {
    if (!topic_.empty() && topic_[0] == "methods") {
      if (topic_.size() > 1) fail_behind("methods", topic_[1]);
      json_ ? write_methods_json() : write_methods();
      return kExitDone;
    }
    if (json_) throw UsageError("--json: needs the topic methods");
    write_help(named_command());
    return kExitDone;
  }

 private:
  /// CLI::App::help() would be that of the command that was chosen, which is this one.
  static void write_help(const CLI::App& app) {
    std::string name = app.get_name();
    for (const CLI::App* above = app.get_parent(); above; above = above->get_parent())
      name = above->get_name() + " " + name;
    write_output(app.get_formatter()->make_help(&app, name, CLI::AppFormatMode::Normal));
  }

  [[noreturn]] static void fail_behind(std::string_view topic, std::string_view found) {
    throw UsageError(fmt::format("help: expected nothing behind {}, got \"{}\"", topic, found));
  }

  /// The program's, or the command that the words of the topic lead to.
  const CLI::App& named_command() const {
    const CLI::App* app = &parent_;
    for (const std::string& name : topic_) {
      std::vector<std::string> names;
      if (app == &parent_) names.emplace_back("methods");
      const CLI::App* next = nullptr;
      for (const CLI::App* command : app->get_subcommands({})) {
        names.push_back(command->get_name());
        if (names.back() == name) next = command;
      }
      if (names.empty()) fail_behind(app->get_name(), name);
      if (!next) fail_choice("help: topic", names, name);
      app = next;
    }
    return *app;
  }

  static void write_methods() {
    std::string text = "Drafters (-d NAME[:key=value,...]) guess the next tokens:\n";
    text += entry_text("auto",
                       "the strongest head of the model, else its own prediction layer (mtp), "
                       "joined with suffix, else suffix; "
                       "with jacobi in place of suffix where the model draws: what run, chat, "
                       "image and serve draft with unless they are told otherwise",
                       {});
    text += table_text(drafters());
    text += "\nPolicies (--policy NAME[:key=value,...]) say how much to guess:\n";
    text += table_text(policies());
    text += "\nRules (--verify NAME[:key=value,...]) say which guesses become text:\n";
    text += table_text(verifiers());
    write_output(text);
  }

  static void write_methods_json() {
    write_json({{"drafters", table_json(drafters())},
                {"policies", table_json(policies())},
                {"rules", table_json(verifiers())}});
  }

  CLI::App& parent_;
  std::vector<std::string> topic_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_help(CLI::App& parent) { return std::make_unique<Help>(parent); }

}  // namespace talon
