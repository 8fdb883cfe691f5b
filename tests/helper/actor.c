/*
 * The program that the tests run below an init. It plays the words of its command line from left to right:
 *
 *     actor ignore 10 orphan [ blast 1 10 ] orphans 100 exit 7
 *
 * Everything it says is a line on standard output, written with one write(2), so that lines of several actors do not
 * mix. Signal masks and dispositions are read with raw system calls: glibc hides signals 32 and 33.
 *
 * A word that does not exist, or fails, ends the actor with 99, a code that no test expects.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LAST_SIGNAL 64
#define ALL_SIGNALS (~0UL)
#define BROKEN 99
#define INIT_WAS_KILLED 98

extern char **environ;

static const char *name = "";

static void say(const char *format, ...)
{
	char line[8192];
	va_list arguments;

	int length = snprintf(line, sizeof line, "%s", name);
	va_start(arguments, format);
	length += vsnprintf(line + length, sizeof line - length - 1, format, arguments);
	va_end(arguments);
	if (length > (int)sizeof line - 2)
		length = sizeof line - 2;
	line[length++] = '\n';
	if (write(1, line, length) != length)
		_exit(BROKEN);
}

static void broken(const char *what)
{
	dprintf(2, "actor: %s: %s\n", what, strerror(errno));
	_exit(BROKEN);
}

static void must(int worked, const char *what)
{
	if (!worked)
		broken(what);
}

/* --- signals, raw --- */

struct raw_action {
	unsigned long handler, flags, restorer, mask;
};

static unsigned long bit(int signal)
{
	return 1UL << (signal - 1);
}

static unsigned long change_mask(int how, unsigned long set)
{
	unsigned long before = 0;
	must(!syscall(SYS_rt_sigprocmask, how, &set, &before, sizeof set), "rt_sigprocmask");
	return before;
}

static unsigned long ignored_signals(void)
{
	unsigned long ignored = 0;
	for (int signal = 1; signal <= LAST_SIGNAL; signal++) {
		struct raw_action action;
		if (!syscall(SYS_rt_sigaction, signal, NULL, &action, sizeof action.mask) &&
		    action.handler == (unsigned long)SIG_IGN)
			ignored |= bit(signal);
	}
	return ignored;
}

static void set_action(int number, sighandler_t handler)
{
	must(signal(number, handler) != SIG_ERR, "signal");
}

/* Says every signal, until `last` has been said. */
static void echo(int last)
{
	unsigned long all = ALL_SIGNALS;
	int number;

	change_mask(SIG_BLOCK, all);
	say("ready");
	do {
		siginfo_t info;
		number = syscall(SYS_rt_sigtimedwait, &all, &info, NULL, sizeof all);
		if (number < 0) {
			must(errno == EINTR, "rt_sigtimedwait");
			continue;
		}
		say("got %d code %d value %d", number, info.si_code, info.si_code == SI_QUEUE ? info.si_value.sival_int : 0);
	} while (number != last);
}

static void die_of(int number)
{
	struct rlimit no_core = { 0, 0 };
	setrlimit(RLIMIT_CORE, &no_core);
	if (number != SIGKILL && number != SIGSTOP)
		set_action(number, SIG_DFL);
	change_mask(SIG_UNBLOCK, ALL_SIGNALS);
	kill(getpid(), number);
	broken("survived a deadly signal");
}

/* Sends as fast as the machine can, until the target is gone. Killed with the namespace at the latest. */
static void blast(pid_t target, int number)
{
	while (kill(target, number) == 0 || errno == EAGAIN)
		;
}

/* --- processes --- */

static void nap(long milliseconds)
{
	struct timespec rest = { milliseconds / 1000, milliseconds % 1000 * 1000000 };
	while (nanosleep(&rest, &rest) && errno == EINTR)
		;
}

static pid_t checked_fork(void)
{
	pid_t child = fork();
	must(child >= 0, "fork");
	return child;
}

/* Where SIGCHLD is ignored, the kernel says ECHILD as soon as the child has ended. */
static void wait_for(pid_t child)
{
	while (waitpid(child, NULL, 0) < 0 && errno != ECHILD)
		must(errno == EINTR, "waitpid");
}

/* True in a new process whose parent has already ended: it belongs to the nearest init. */
static int fork_orphan(void)
{
	pid_t between = checked_fork();
	if (!between) {
		between = getpid();
		if (checked_fork())
			_exit(0);
		while (getppid() == between)
			nap(1);
		return 1;
	}
	wait_for(between);
	return 0;
}

/* Makes `count` orphans that end at once. */
static void make_orphans(int count)
{
	while (count-- > 0)
		if (fork_orphan())
			_exit(0);
}

/* Process 1 of a namespace in which the init under test is an ordinary process. Ends with its code. */
static void host(char **command)
{
	sighandler_t inherited = signal(SIGCHLD, SIG_DFL);
	pid_t init = checked_fork();
	if (!init) {
		set_action(SIGCHLD, inherited);
		execvp(command[0], command);
		broken(command[0]);
	}
	for (;;) {
		int status;
		pid_t ended = wait(&status);
		if (ended != init) {
			must(ended > 0 || errno == EINTR, "wait");
			continue;
		}
		if (WIFSIGNALED(status)) {
			dprintf(2, "actor: the init was killed by signal %d\n", WTERMSIG(status));
			_exit(INIT_WAS_KILLED);
		}
		_exit(WEXITSTATUS(status));
	}
}

/* --- what a process inherits --- */

static void say_descriptors(void)
{
	for (int descriptor = 0; descriptor < 256; descriptor++) {
		struct stat file;
		int flags = fcntl(descriptor, F_GETFL);
		if (flags >= 0 && !fstat(descriptor, &file))
			say("descriptor %d is %lx:%lx flags %x", descriptor, file.st_dev, file.st_ino, flags);
	}
}

static void say_signals(void)
{
	say("blocked %016lx", change_mask(SIG_BLOCK, 0));
	say("ignored %016lx", ignored_signals());
}

static void say_state(void)
{
	char directory[PATH_MAX];
	mode_t mask = umask(0);
	struct rlimit limit;

	say("directory %s", getcwd(directory, sizeof directory) ? directory : strerror(errno));
	say("umask %o", mask);
	umask(mask);
	for (int resource = 0; resource < RLIM_NLIMITS; resource++)
		if (!getrlimit(resource, &limit))
			say("limit %d is %lx %lx", resource, limit.rlim_cur, limit.rlim_max);
	say("nice %d", getpriority(PRIO_PROCESS, 0));
	say("ids %d %d %d %d", getuid(), geteuid(), getgid(), getegid());
	say("no new privileges %d", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	for (char **variable = environ; *variable; variable++)
		say("variable %s", *variable);
}

static void say_family(void)
{
	say("pid %d parent %d group %d session %d", getpid(), getppid(), getpgrp(), getsid(0));
}

static void say_terminal(void)
{
	pid_t foreground = tcgetpgrp(0);
	if (foreground < 0)
		say("no terminal");
	else
		say(foreground == getpgrp() ? "foreground" : "background");
}

/* Which of descriptors 0, 1 and 2 are open, as a number that fits an exit code. */
static int open_stdio(void)
{
	int open = 0;
	for (int descriptor = 0; descriptor < 3; descriptor++)
		if (fcntl(descriptor, F_GETFD) >= 0)
			open |= 1 << descriptor;
	return open;
}

/* --- the words --- */

static char **play(char **word);

static char *text(char ***word)
{
	must(**word != NULL, "a word is missing");
	return *(*word)++;
}

/* Takes memory until the kernel ends it. */
static void hog(void)
{
	enum { CHUNK = 1 << 20 };
	for (;;) {
		char *chunk = malloc(CHUNK);
		must(chunk != NULL, "malloc");
		memset(chunk, 1, CHUNK);
		__asm__ volatile("" : : "r"(chunk) : "memory");
	}
}

static long number(char ***word)
{
	return strtol(text(word), NULL, 0);
}

/* The word behind the bracket that closes the one at `word`. */
static char **behind(char **word)
{
	int depth = 0;
	do {
		must(*word != NULL, "a bracket is not closed");
		depth += !strcmp(*word, "[") - !strcmp(*word, "]");
		word++;
	} while (depth);
	return word;
}

static char **in_another_process(char **block, int is_mine)
{
	if (is_mine) {
		play(block + 1);
		_exit(0);
	}
	return behind(block);
}

static char **play(char **word)
{
	while (*word) {
		char *step = *word++;
#define STEP(its_name) else if (!strcmp(step, its_name))
		if (!strcmp(step, "]"))
			break;
		STEP("say") say("%s", text(&word));
		STEP("name") asprintf((char **)&name, "%s: ", text(&word));
		STEP("echo") echo(number(&word));
		STEP("ignore") set_action(number(&word), SIG_IGN);
		STEP("default") set_action(number(&word), SIG_DFL);
		STEP("block") change_mask(SIG_BLOCK, bit(number(&word)));
		STEP("unblock") change_mask(SIG_UNBLOCK, ALL_SIGNALS);
		STEP("blast") {
			pid_t target = number(&word);
			blast(target, number(&word));
		}
		STEP("kill") {
			pid_t target = number(&word);
			must(!kill(target, number(&word)), "kill");
		}
		STEP("stop") must(!raise(SIGSTOP), "raise");
		STEP("nap") nap(number(&word));
		STEP("pause") for (;;) pause();
		STEP("wait") while (wait(NULL) > 0 || errno == EINTR);
		STEP("child") word = in_another_process(word, !checked_fork());
		STEP("orphan") word = in_another_process(word, fork_orphan());
		STEP("orphans") make_orphans(number(&word));
		STEP("session") must(setsid() > 0, "setsid");
		STEP("group") must(!setpgid(0, 0), "setpgid");
		STEP("user") {
			uid_t user = number(&word);
			must(!setresgid(user, user, user) && !setresuid(user, user, user), "setresuid");
		}
		STEP("comm") must(!prctl(PR_SET_NAME, text(&word)), "prctl");
		STEP("hog") hog();
		STEP("traceme") must(!ptrace(PTRACE_TRACEME, 0, 0, 0), "ptrace");
		STEP("signals") say_signals();
		STEP("state") say_state();
		STEP("descriptors") say_descriptors();
		STEP("family") say_family();
		STEP("terminal") say_terminal();
		STEP("read") {
			char input[256];
			ssize_t length = read(0, input, sizeof input - 1);
			must(length >= 0, "read");
			input[length] = 0;
			say("read %s", strtok(input, "\n"));
		}
		STEP("environment") {
			char *variable = text(&word), *value = getenv(variable);
			say("%s %s", variable, value ? value : "is not set");
		}
		STEP("exit") _exit(number(&word));
		STEP("exit-open-stdio") _exit(open_stdio());
		STEP("die") die_of(number(&word));
		STEP("host") host(word);
		else {
			errno = EINVAL;
			broken(step);
		}
	}
	return word;
}

int main(int count, char **words)
{
	must(count > 1, "no words");
	play(words + 1);
	return 0;
}
