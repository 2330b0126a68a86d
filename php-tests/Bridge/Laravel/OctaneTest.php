<?php

declare(strict_types=1);

namespace RedisLease\Tests\Bridge\Laravel;

use RedisLease\Tests\Support\Worker;

use function RedisLease\Tests\Support\eventually;

/** A worker as Octane's: one process, for each request a clone of the application, and Octane's events around it. */
final class OctaneTest extends LaravelTestCase
{
    private const OCTANE = <<<'PHP'
        use Illuminate\Container\Container;
        use Illuminate\Support\Facades\Facade;
        use RedisLease\Bridge\LeaseFactory;

        foreach (['Request', 'Task', 'Tick'] as $what) {
            eval("namespace Laravel\\Octane\\Events; class {$what}Received {} class {$what}Terminated {}");
        }
        eval('namespace Laravel\Octane\Events; class WorkerErrorOccurred {} class WorkerStopping {}');
        $tell = static function ($app, string $event): void {
            $class = "Laravel\\Octane\\Events\\$event";
            $app->make('events')->dispatch(new $class());
        };
        $serve = static function (callable $request, string $what = 'Request') use ($app, $tell): void {
            $sandbox = clone $app;
            $sandbox->instance('app', $sandbox);
            Container::setInstance($sandbox);
            Facade::clearResolvedInstances();
            Facade::setFacadeApplication($sandbox);
            try {
                $tell($sandbox, "{$what}Received");
                $request($sandbox);
                $tell($sandbox, "{$what}Terminated");
            } catch (Exception) {
                $tell($sandbox, 'WorkerErrorOccurred');
            }
            $sandbox->flush();
            Container::setInstance($app);
            Facade::setFacadeApplication($app);
        };
        final class Kept { public static array $kept = []; }
        $keep = static fn (string $name): Closure => static function ($app) use ($name): void {
            Kept::$kept[$name] = $app->make(LeaseFactory::class)->create($name, 60.0);
            Kept::$kept[$name]->acquire();
        };

        PHP;

    private static function octane(string $snippet): Worker
    {
        return self::laravelWorker(self::OCTANE . $snippet);
    }

    public function testWhatARequestLeftBehindInTheWorkerIsGivenBackAtItsEnd(): void
    {
        $worker = self::octane(<<<'PHP'
            $keep('worker')($app);
            foreach (['Request', 'Task', 'Tick'] as $what) {
                $serve($keep($what), $what);
            }
            $serve(function ($app) use ($keep) { $keep('failed')($app); throw new Exception('boom'); });
            // A listener of its end that fails.
            $serve(function ($app) use ($tell) { $tell($app, 'RequestTerminated'); throw new Exception('boom'); });
            say(array_map(fn ($lock) => $lock->isHeld(), Kept::$kept));
            hear();
            $tell($app, 'WorkerStopping');
            say(Kept::$kept['worker']->isHeld());
            hear();
            PHP);
        self::assertSame(
            ['worker' => true, 'Request' => false, 'Task' => false, 'Tick' => false, 'failed' => false],
            $worker->hear(),
        );
        foreach (['Request', 'Task', 'Tick', 'failed'] as $name) {
            self::assertNull(self::stored($name), $name);
        }
        self::assertNotNull(self::stored('worker'), 'it is none of a request\'s');
        $worker->say();
        self::assertFalse($worker->hear());
        self::assertNull(self::stored('worker'));
        $worker->say();
        $worker->finish();
    }

    public function testALockOfTheCachesStaysAsItDoesWhenPhpEndsTheRequest(): void
    {
        $worker = self::octane(<<<'PHP'
            $serve(function () {
                foreach (['some seconds' => 60, 'no end' => 0] as $name => $seconds) {
                    Kept::$kept[$name] = Cache::lock($name, $seconds);
                    Kept::$kept[$name]->get();
                }
            });
            say(array_map(fn ($lock) => $lock->isOwnedByCurrentProcess(), Kept::$kept));
            hear();
            say(array_map(fn ($lock) => $lock->release(), Kept::$kept));
            PHP);
        self::assertSame(['some seconds' => true, 'no end' => true], $worker->hear());
        $worker->say();
        self::assertSame(['some seconds' => true, 'no end' => true], $worker->hear());
        $worker->finish();
        self::assertNull(self::stored('no end'));
    }

    public function testALockWithoutAnEndIsNotRenewedAfterTheRequestThatTookIt(): void
    {
        $worker = self::laravelWorker(self::OCTANE . <<<'PHP'
            $take = fn () => (Kept::$kept[] = Cache::lock('no end'))->get();
            $renewals = fn () => array_sum(RedisLease\Metrics::snapshot()['renewals']['thread']);
            $serve($take);
            say($renewals());
            hear();
            say($renewals());
            PHP, ['stores' => self::stores(['long_ttl' => 3.0])]);
        $before = $worker->hear();

        // Not its end alone: a renewal that comes late does not prevent it.
        eventually(static fn () => self::stored('no end') === null, 'nobody renews it');
        $worker->say();
        self::assertSame($before, $worker->hear());
        $worker->finish();
    }
}
