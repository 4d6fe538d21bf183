// Starts `jfagen lsp` for .sched files; colours and snippets work without it.
"use strict";

const fs = require("fs");
const path = require("path");
const vscode = require("vscode");
const { CloseAction, ErrorAction, LanguageClient } = require("vscode-languageclient/node");

const SETTING = "jfagen.command";

/** The running client, or undefined. */
let client;
/** Starts and stops follow each other: each waits for the one before. */
let queue = Promise.resolve();

function workspaceFolder() {
  const folders = vscode.workspace.workspaceFolders;
  return folders && folders.length ? folders[0].uri.fsPath : undefined;
}

/** The command and its arguments; a string is the path of `jfagen`. */
function configuredCommand() {
  const value = vscode.workspace.getConfiguration().get(SETTING);
  const [command, ...args] = typeof value === "string" ? [value, "lsp"] : value || [];
  if (!command) return { command: "jfagen", args: ["lsp"] };
  if (path.basename(command) === command) return { command, args };
  return { command: path.resolve(workspaceFolder() || "", command), args };
}

function isFile(file) {
  try {
    return fs.statSync(file).isFile();
  } catch {
    return false;
  }
}

/** Whether the command is a file, or one of that name lies on the search path. */
function exists(command) {
  const endings = process.platform === "win32" ? ["", ".exe"] : [""];
  const named = path.basename(command) === command;
  const folders = named ? (process.env.PATH || "").split(path.delimiter).filter(Boolean) : [""];
  return folders.some((folder) => endings.some((end) => isFile(path.join(folder, command + end))));
}

/** Say what is wrong, and offer the way to the setting; not awaited, it stays until answered. */
function complain(message) {
  vscode.window.showErrorMessage(`jfagen: ${message}`, "Open Settings").then((answer) => {
    if (answer) vscode.commands.executeCommand("workbench.action.openSettings", SETTING);
  });
}

async function start() {
  const { command, args } = configuredCommand();
  if (!exists(command)) {
    complain(
      `the command \`${command}\` is not found. Install jfagen where VS Code finds it, ` +
        `or give the path of \`jfagen\` in the setting \`${SETTING}\`.`
    );
    return;
  }
  const line = [command, ...args].join(" ");
  let running = false;
  let told = false;
  /** One message for a server, in place of several from the client. */
  const complainOnce = (message) => {
    if (!told) complain(`${message} The panel Output, channel jfagen, shows what it wrote.`);
    told = true;
  };
  const options = {
    documentSelector: [{ scheme: "file", language: "sched" }],
    initializationFailedHandler: () => false,
    errorHandler: {
      error: () => ({ action: ErrorAction.Continue, handled: true }),
      closed: () => {
        complainOnce(running ? `\`${line}\` ended.` : `\`${line}\` ended before it answered.`);
        return { action: CloseAction.DoNotRestart, handled: true };
      },
    },
  };
  try {
    // Without a transport: it is stdio, and no argument is added.
    client = new LanguageClient("jfagen", "jfagen", { command, args }, options);
    await client.start();
    running = true;
  } catch (error) {
    client = undefined;
    complainOnce(`\`${line}\` does not start: ${error.message || error}.`);
  }
}

async function stop() {
  const running = client;
  client = undefined;
  if (running) await running.stop().catch(() => undefined);
}

function restart() {
  queue = queue.then(stop).then(start);
  return queue;
}

function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("jfagen.restartServer", restart),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration(SETTING)) restart();
    })
  );
  return restart();
}

function deactivate() {
  queue = queue.then(stop);
  return queue;
}

module.exports = { activate, deactivate };
